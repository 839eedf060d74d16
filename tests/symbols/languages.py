#!/usr/bin/env python3
"""What compilers call functions, and what who wrote them calls them."""
import os
import re
import sys

import elf
from elf import Symbol
from suite import Skip, answers, case, expect, main, need, run, symbols

BASE = 0x401000


def shown(at, names):
    """names: as in the symbol table -> as it has to be shown."""
    path = elf.write(at / "p", [Symbol(n, BASE + 16 * i, 16) for i, n in enumerate(names)])
    expect(path, {BASE + 16 * i: n for i, n in enumerate(names.values())})


@case
def cxx_templates_are_whole(at):
    """FlameGraph#119, #173: cut at the first parenthesis or angle bracket, overloads become one."""
    shown(at, {
        "_ZN2ns6squareIiEEiT_": "ns::square<int>(int)",
        "_ZN2ns6squareIdEEdT_": "ns::square<double>(double)",
        "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc":
            "std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
        "_ZZ4mainENKUlvE_clEv": "main::{lambda()#1}::operator()() const",
        "_ZN12_GLOBAL__N_14workEv": "(anonymous namespace)::work()",
        "_ZN1AcvbEv": "A::operator bool()",
        "_ZNK1AclEPFviE": "A::operator()(void (*)(int)) const",
        "_ZThn16_N1B1fEv": "non-virtual thunk to B::f()",
        "_ZTv0_n24_N1BD1Ev": "virtual thunk to B::~B()",
        "_ZGVZ1fvE1s": "guard variable for f()::s",
        "_ZN1fB5cxx11Ev": "f[abi:cxx11]()",
        "_ZN3foo3barILi3EEEvv": "foo::bar<3>()",
        "_Zli2_wPKc": 'operator"" _w(char const*)',
    })


@case
def rust_names_of_both_manglings_are_shown_without_their_hash(at):
    shown(at, {
        "_ZN4core3ptr13drop_in_place17h0123456789abcdefE": "core::ptr::drop_in_place",
        "_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE":
            "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop",
        "_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE": "std::rt::lang_start::{{closure}}",
        "_RNvCs15kBYyAo9fc_7mycrate3foo": "mycrate::foo",
        "_RNvNtCs1234_4shop5order5parse": "shop::order::parse",
        "_RINvNtC3std3mem8align_ofjE": "std::mem::align_of::<usize>",
        "_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_": "mycrate::main::{closure#0}",
        "_RNvMCs1234_1aNtB2_1S1f": "<a::S>::f",
        "_RNvC4shop5parse.llvm.1234567": "shop::parse",
    })


@case
def d_names_are_shown_as_written(at):
    """perf and gdb's "auto" show them mangled."""
    shown(at, {
        "_Dmain": "D main",
        "_D3app4shop5orderFiZv": "app.shop.order(int)",
        "_D3app4shop5Order5priceMFNaNbNiNfAyaZd": "app.shop.Order.price(immutable(char)[])",
        "_D3app3barFiZ3bazMFZv": "app.bar(int).baz()",
        "_D3app4Node4linkMFCQr4NodeZv": "app.Node.link(app.Node)",
        "_D3std4conv__T2toTiZQgFAyaZi": "std.conv.to!(int).to(immutable(char)[])",
        "_Dont_touch": "_Dont_touch", "_D": "_D", "_DYNAMIC_init": "_DYNAMIC_init",
    })


@case
def go_names_are_kept(at):
    """pprof and others demangle "(*T)" away, or take the middle dot for damage."""
    names = (
        "main.main", "main.(*Server).Serve.func1", "runtime.mallocgc", "type..eq.[2]string", "main.Map[go.shape.int_0]",
        "github.com/user/repo%2ev2.(*T).Do-fm", "go:struct { F uintptr; x int }.f", "main.glob..func1", "vendor/golang.org/x/net/http.Do",
        "main.(*T[go.shape.struct { main.a int }]).M", "main.café", "main.x·y",
    )
    shown(at, {n: n for n in names})


@case
def names_of_other_languages_are_kept(at):
    """What libiberty does not know, or what only looks mangled."""
    names = (
        "$s4main3fooyyF", "camlStdlib__List__map_123", "Main_zdwfib_info", "__main_MOD_solve", "solve_", "-[Cart total]", "+[Cart new]",
        "_RD_init", "_Zero", "_Z", "_R", "_ZN", "__Z3foov", "_ZN4shop", "_RNv", "__libc_start_main", "pack__proc", "h_",
        "std::sort", "LazyCompile:~fn", "?f@@YAXXZ",
    )
    shown(at, {n: n.split("@")[0] for n in names})


ADA = """
with Ada.Text_IO;
procedure Shop is
   package Cart is
      function Total (N : Integer) return Integer;
      function "+" (A : String; B : Integer) return Integer;
   end Cart;
   package body Cart is
      function Total (N : Integer) return Integer is
         S : Integer := 0;
      begin
         for I in 1 .. N loop
            S := (S + I * I) mod 1000;
         end loop;
         return S;
      end Total;
      function "+" (A : String; B : Integer) return Integer is
      begin
         return A'Length + B;
      end "+";
   end Cart;
   use Cart;
begin
   Ada.Text_IO.Put_Line (Integer'Image (Cart.Total (10) + ("a" + 3)));
end Shop;
"""


@case
def ada_names_are_shown_with_dots_where_debug_information_says_that_it_is_ada(at):
    """shop__cart__total may be C's too: without debug information it stays, but for the main program."""
    need("gnatmake")
    (at / "shop.adb").write_text(ADA)
    run("gnatmake", "-q", "-g", "-O0", "shop.adb", cwd=at)
    s = symbols(at / "shop")
    total = next(a for n, a in s.items() if n.startswith("shop__cart__total"))
    plus = next(a for n, a in s.items() if n.startswith("shop__cart__Oadd"))
    expect(at / "shop", {total: "shop.cart.total", plus: 'shop.cart."+"', s["_ada_shop"]: "shop"})
    frame = answers(at / "shop", [total])[total][0]
    assert frame.system.startswith("shop__cart__total"), frame.system
    run("objcopy", "-g", at / "shop")
    got = answers(at / "shop", [total, s["_ada_shop"]])
    assert got[total][0].name.startswith("shop__cart__total") and got[s["_ada_shop"]][0].name == "shop", got


@case
def ada_is_known_by_the_language_of_its_unit_alone(at):
    """The same without gnat: C whose debug information says Ada, and says C."""
    (at / "shop.c").write_text("int shop__cart__total(int n) { return n + 1; }\nint shop__cart__Oadd(int n) { return n; }\n")
    run("gcc", "-S", "-g", "-dA", "-O1", "-fPIC", at / "shop.c", "-o", at / "shop.s")
    text = (at / "shop.s").read_text()
    ada = re.sub(r"\.byte\t0x[0-9a-f]+(\t# DW_AT_language)", r".byte\t0xd\1", text)
    assert ada != text, "no language in the debug information"
    for code, names in ((text, ("shop__cart__total", "shop__cart__Oadd")), (ada, ("shop.cart.total", 'shop.cart."+"'))):
        (at / "shop.s").write_text(code)
        run("gcc", "-shared", "-nostdlib", at / "shop.s", "-o", at / "shop.so")
        s = symbols(at / "shop.so")
        expect(at / "shop.so", {s["shop__cart__total"]: names[0], s["shop__cart__Oadd"]: names[1]})


RUST = """
pub trait Price { fn price(&self) -> u64; }
pub struct Cart<T> { pub items: Vec<T> }
impl Price for Cart<u32> {
    #[inline(never)]
    fn price(&self) -> u64 { self.items.iter().map(|i| *i as u64 * 3).sum() }
}
fn main() {
    let c = Cart { items: (0..std::env::args().count() as u32).collect() };
    println!("{}", c.price());
}
"""


@case
def rust_programs_are_named_as_written_with_and_without_debug_information(at):
    need("rustc")
    (at / "shop.rs").write_text(RUST)
    for version in ("legacy", "v0"):
        for debug in ("0", "2"):
            try:
                run(
                    "rustc", "--edition=2021", "-Copt-level=2", f"-Csymbol-mangling-version={version}", f"-Cdebuginfo={debug}",
                    *(("-Zunstable-options",) if version == "legacy" else ()), "shop.rs", cwd=at,
                    env={**os.environ, "RUSTC_BOOTSTRAP": "1"},
                )
            except AssertionError as why:
                raise Skip(f"rustc makes no program here: {str(why)[:200]}")
            s = symbols(at / "shop")
            raw = next(n for n in s if "price" in n and ("Price" in n))
            expect(at / "shop", {s[raw]: "<shop::Cart<u32> as shop::Price>::price"})


if __name__ == "__main__":
    sys.exit(main())
