/* daemon/symbol/names.c and demangle.c: what is shown of names that files contain. */
#include "daemon/symbol/names.h"

#include "daemon/symbol/demangle.h"
#include "tests/support/test.h"

#include <stdio.h>

struct setup {
	struct kp_arena arena;
	struct kp_names *names;
};

static void begin(struct setup *s)
{
	*s = (struct setup){ 0 };
	cr_assert_eq(kp_names_create(&s->arena, &s->names, NULL), 0);
}

static void end(struct setup *s)
{
	kp_names_destroy(s->names);
	kp_arena_deinit(&s->arena);
}

static const char *shown(struct setup *s, const char *raw)
{
	struct kp_name name;

	cr_assert_eq(kp_names_function(s->names, raw, &name, NULL), 0);
	return name.shown;
}

static const char *system_name(struct setup *s, const char *raw)
{
	struct kp_name name;

	cr_assert_eq(kp_names_function(s->names, raw, &name, NULL), 0);
	return name.system;
}

Test(names, demangles_and_keeps_the_whole_name)
{
	struct setup s;

	begin(&s);
	cr_assert_str_eq(shown(&s, "_ZN2ns6squareIiEEiT_"), "ns::square<int>(int)");
	cr_assert_str_eq(system_name(&s, "_ZN2ns6squareIiEEiT_"), "_ZN2ns6squareIiEEiT_");
	cr_assert_str_eq(shown(&s, "_ZN3foo3barEv.cold.1"), "foo::bar() [clone .cold.1]");
	cr_assert_str_eq(shown(&s, "_RNvC7mycrate3foo"), "mycrate::foo");
	cr_assert_str_eq(shown(&s, "_ZN7mycrate3foo17h0123456789abcdefE"), "mycrate::foo");
	end(&s);
}

Test(names, leaves_alone_what_is_not_mangled)
{
	struct setup s;

	begin(&s);
	cr_assert_str_eq(shown(&s, "i"), "i");
	cr_assert_str_eq(shown(&s, "main"), "main");
	cr_assert_str_eq(shown(&s, "foo.constprop.0"), "foo.constprop.0");
	cr_assert_str_eq(shown(&s, "_Zero"), "_Zero");
	cr_assert_str_eq(shown(&s, "_ZN3foo"), "_ZN3foo");
	cr_assert_str_eq(shown(&s, "main.run.func1"), "main.run.func1");
	end(&s);
}

Test(names, shows_a_symbol_without_its_version)
{
	struct setup s;

	begin(&s);
	cr_assert_str_eq(shown(&s, "memcpy@@GLIBC_2.14"), "memcpy");
	cr_assert_str_eq(system_name(&s, "memcpy@@GLIBC_2.14"), "memcpy@@GLIBC_2.14");
	cr_assert_str_eq(shown(&s, "_ZNSs4swapERSs@GLIBCXX_3.4"),
			 "std::string::swap(std::string&)");
	end(&s);
}

Test(names, gives_one_pointer_for_equal_strings)
{
	struct setup s;
	char raw[32];
	const char *first[3000];

	begin(&s);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 3000; i++) {
			const char *kept;

			snprintf(raw, sizeof(raw), "function_%u", i);
			cr_assert_eq(kp_names_text(s.names, raw, &kept, NULL), 0);
			cr_assert_str_eq(kept, raw);
			if (round == 0)
				first[i] = kept;
			else
				cr_assert_eq(kept, first[i]);
		}
	}
	end(&s);
}

Test(names, keeps_utf8_and_writes_other_bytes_out)
{
	struct setup s;

	begin(&s);
	cr_assert_str_eq(shown(&s, "gr\xc3\xb6\xc3\x9f"
				   "e_\xe2\x82\xac_\xf0\x9f\x98\x80"),
			 "gr\xc3\xb6\xc3\x9f"
			 "e_\xe2\x82\xac_\xf0\x9f\x98\x80");
	cr_assert_str_eq(shown(&s, "a\xff"
				   "b"),
			 "a\\xffb");
	cr_assert_str_eq(shown(&s, "cut\xe2\x82"), "cut\\xe2\\x82"); /* ends in a sequence */
	cr_assert_str_eq(shown(&s, "\xc0\xaf"), "\\xc0\\xaf"); /* too long a form of a slash */
	cr_assert_str_eq(shown(&s, "\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* a surrogate */
	cr_assert_str_eq(shown(&s, "\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* > U+10FFFF */
	cr_assert_str_eq(shown(&s, "line\nbreak\x7f"), "line\\x0abreak\\x7f");
	end(&s);
}

Test(names, cuts_megabytes)
{
	size_t size = (size_t)4 << 20;
	char *raw = malloc(size + 1);
	struct setup s;
	const char *kept;

	begin(&s);
	memset(raw, 'x', size);
	raw[size] = '\0';
	kept = shown(&s, raw);
	cr_assert_eq(strlen(kept), KP_NAME_MAX + 3);
	cr_assert_str_eq(kept + KP_NAME_MAX, "...");
	memset(raw, 0xff, size);
	kept = shown(&s, raw);
	cr_assert_leq(strlen(kept), KP_NAME_MAX + 3);
	cr_assert_str_eq(kept + strlen(kept) - 7, "\\xff...");
	free(raw);
	end(&s);
}

/* f(A, B<A, A>, B<that, that>, ...): each parameter is twice as long as the one before it. */
Test(names, gives_up_on_a_name_that_explodes)
{
	static const char digit[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char raw[1024] = "_Z1f1A1BIS_S_E", *p = raw + strlen(raw);

	for (unsigned k = 1; k < 30; k++)
		p += sprintf(p, "S0_IS%c_S%c_E", digit[k], digit[k]);
	cr_assert_null(kp_demangle(raw));
}

Test(names, survives_deep_recursion)
{
	char *raw = malloc(KP_DEMANGLE_INPUT_MAX + 2);

	memcpy(raw, "_Z1f", 4);
	memset(raw + 4, 'P', KP_DEMANGLE_INPUT_MAX - 5);
	strcpy(raw + KP_DEMANGLE_INPUT_MAX - 1, "i");
	free(kp_demangle(raw)); /* an answer or none, but no crash */
	memset(raw + 4, 'F', KP_DEMANGLE_INPUT_MAX - 5);
	free(kp_demangle(raw));
	free(raw);
}

/* Long, but written by people's templates: beyond libiberty's own limit of 1024 bytes. */
Test(names, demangles_long_names)
{
	char raw[4096] = "_Z1f", *text, *p = raw + 4;

	for (unsigned i = 0; i < 600; i++)
		p += sprintf(p, "4A%03u", i);
	text = kp_demangle(raw);
	cr_assert_not_null(text);
	cr_assert_eq(strncmp(text, "f(A000, A001, A002,", 19), 0);
	cr_assert_str_eq(text + strlen(text) - 6, " A599)");
	free(text);
}
