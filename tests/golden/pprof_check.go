// A strict reader of pprof profiles for the tests: pprof_check FILE.pb.gz [FILE.folded [SPLIT]].
//
// Reads the profile with pprof's own package and checks what that accepts but other consumers do
// not: ids 1..N in the order of their tables, valid UTF-8 everywhere, a line at each location, an
// address inside its mapping, mappings that say that they are symbolized, labels without repeated
// keys. Prints the stacks, folded. With a second file, the folded output for the same profile, it
// requires the same stacks with the same weights: CPU time in periods. SPLIT is "processes" or
// "threads" where the folded output tells these apart: the labels must tell them apart likewise.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"
)

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "pprof_check: "+format+"\n", args...)
	os.Exit(1)
}

func read(path string) *profile.Profile {
	file, err := os.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		fail("%s: %v", path, err)
	}
	return p
}

func checkText(what string, texts ...string) {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			fail("%s is not UTF-8: %q", what, text)
		}
		if strings.IndexFunc(text, unicode.IsControl) >= 0 {
			fail("%s has a control character: %q", what, text)
		}
	}
}

func checkHead(p *profile.Profile) {
	types := ""
	for _, t := range p.SampleType {
		types += t.Type + "/" + t.Unit + " "
	}
	if types != "samples/count cpu/nanoseconds " {
		fail("sample types are %q", types)
	}
	if p.DefaultSampleType != "cpu" || p.PeriodType == nil || p.PeriodType.Type != "cpu" {
		fail("default or period type is not cpu")
	}
	if p.Period <= 0 || p.DurationNanos <= 0 || p.TimeNanos <= 0 {
		fail("period %d, duration %d, time %d", p.Period, p.DurationNanos, p.TimeNanos)
	}
	if p.DropFrames != "" || p.KeepFrames != "" {
		fail("drop or keep frames are set")
	}
	if len(p.Comments) == 0 {
		fail("no comments: losses are told nowhere")
	}
	checkText("comment", p.Comments...)
}

func checkMappings(p *profile.Profile) {
	for i, m := range p.Mapping {
		if m.ID != uint64(i+1) {
			fail("mapping %d has id %d", i+1, m.ID)
		}
		if !m.HasFunctions || !m.HasFilenames || !m.HasLineNumbers || !m.HasInlineFrames {
			fail("mapping %d: pprof would replace our names", m.ID)
		}
		if m.Start >= m.Limit {
			fail("mapping %d is empty", m.ID)
		}
		if !regexp.MustCompile("^([0-9a-f][0-9a-f])*$").MatchString(m.BuildID) {
			fail("mapping %d: build id %q", m.ID, m.BuildID)
		}
		checkText("file name of a mapping", m.File)
	}
}

func checkLocations(p *profile.Profile) {
	for i, f := range p.Function {
		if f.ID != uint64(i+1) {
			fail("function %d has id %d", i+1, f.ID)
		}
		if f.Name == "" || f.SystemName == "" {
			fail("function %d has no name", f.ID)
		}
		checkText("function", f.Name, f.SystemName, f.Filename)
	}
	for i, l := range p.Location {
		if l.ID != uint64(i+1) {
			fail("location %d has id %d", i+1, l.ID)
		}
		if len(l.Line) == 0 {
			fail("location %d has no line: speedscope drops it", l.ID)
		}
		if l.Mapping != nil && (l.Address < l.Mapping.Start || l.Address >= l.Mapping.Limit) {
			fail("location %d: %#x lies outside of its mapping", l.ID, l.Address)
		}
	}
}

func checkSamples(p *profile.Profile) {
	key := regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]*$")
	seen := map[string]bool{}
	for _, s := range p.Sample {
		id := ""
		for _, l := range s.Location {
			id += fmt.Sprint(l.ID, " ")
		}
		id += fmt.Sprint(s.Label, s.NumLabel)
		if seen[id] {
			fail("two samples of the same stack and labels: %s", id)
		}
		seen[id] = true
		if len(s.Location) == 0 || s.Value[0] <= 0 || s.Value[1] <= 0 {
			fail("sample %s has values %v", id, s.Value)
		}
		for k, values := range s.Label {
			if !key.MatchString(k) || len(values) != 1 || s.NumLabel[k] != nil {
				fail("label %q: %q", k, values)
			}
			checkText("label", values...)
		}
		for k, values := range s.NumLabel {
			if !key.MatchString(k) || len(values) != 1 {
				fail("label %q: %v", k, values)
			}
		}
	}
}

// The rules of folded text, said once more in another language.
func frame(name string) string {
	if name == "" {
		return "[unknown]"
	}
	return strings.ReplaceAll(name, ";", ":")
}

// Who ran, as the labels say: comm, pid, tid.
type who struct {
	comm     string
	pid, tid int64
}

func textLabel(s *profile.Sample, key string) string {
	if values := s.Label[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func numLabel(s *profile.Sample, key string) int64 {
	if values := s.NumLabel[key]; len(values) > 0 {
		return values[0]
	}
	return 0
}

func whoRan(s *profile.Sample) who {
	return who{textLabel(s, "comm"), numLabel(s, "pid"), numLabel(s, "tid")}
}

// The name under which each thread used the most CPU time; of equals the first.
func threadNames(p *profile.Profile) map[who]string {
	type named struct {
		who
		name string
	}
	sum, order := map[named]int64{}, []named{}
	for _, s := range p.Sample {
		n := named{whoRan(s), textLabel(s, "thread_name")}
		if _, known := sum[n]; !known {
			order = append(order, n)
		}
		sum[n] += s.Value[1]
	}
	best := map[who]string{}
	for _, n := range order {
		if name, known := best[n.who]; !known || sum[n] > sum[named{n.who, name}] {
			best[n.who] = n.name
		}
	}
	return best
}

func root(w who, split, threadName string) string {
	comm := strings.ReplaceAll(frame(w.comm), " ", "_")
	if split == "" {
		return comm
	}
	text := fmt.Sprintf("%s-%d", strings.ReplaceAll(comm, "/", ":"), w.pid)
	if split == "threads" {
		text += fmt.Sprintf("/%s-%d", strings.ReplaceAll(frame(threadName), " ", "_"), w.tid)
	}
	return text
}

func stack(s *profile.Sample, root string) string {
	frames := []string{root}
	for i := len(s.Location) - 1; i >= 0; i-- {
		lines := s.Location[i].Line
		for j := len(lines) - 1; j >= 0; j-- {
			frames = append(frames, frame(lines[j].Function.Name))
		}
	}
	return regexp.MustCompile(` (\d+(\.\d*)?)$`).ReplaceAllString(strings.Join(frames, ";"), "_$1")
}

func fold(p *profile.Profile, split string) map[string]int64 {
	sum, names := map[string]int64{}, threadNames(p)
	for _, s := range p.Sample {
		w := whoRan(s)
		sum[stack(s, root(w, split, names[w]))] += s.Value[1]
	}
	for text, ns := range sum {
		periods := (ns + p.Period/2) / p.Period
		if periods < 1 {
			periods = 1
		}
		sum[text] = periods
	}
	return sum
}

func compare(folded map[string]int64, path string) {
	file, err := os.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer file.Close()
	previous, lines := "", 0
	for in := bufio.NewScanner(file); in.Scan(); lines++ {
		line := in.Text()
		at := strings.LastIndex(line, " ")
		weight, err := strconv.ParseInt(line[at+1:], 10, 64)
		if at < 0 || err != nil {
			fail("%s: not a folded line: %q", path, line)
		}
		if folded[line[:at]] != weight {
			fail("%s: %q is %d in pprof", path, line, folded[line[:at]])
		}
		if line <= previous {
			fail("%s: not sorted: %q", path, line)
		}
		previous = line
	}
	if lines != len(folded) {
		fail("%s has %d stacks, pprof has %d", path, lines, len(folded))
	}
}

func main() {
	if len(os.Args) < 2 || len(os.Args) > 4 {
		fail("usage: pprof_check FILE.pb.gz [FILE.folded [SPLIT]]")
	}
	split := ""
	if len(os.Args) == 4 {
		split = os.Args[3]
	}
	p := read(os.Args[1])
	checkHead(p)
	checkMappings(p)
	checkLocations(p)
	checkSamples(p)
	folded := fold(p, split)
	if len(os.Args) >= 3 {
		compare(folded, os.Args[2])
	}
	texts := []string{}
	for text := range folded {
		texts = append(texts, text)
	}
	sort.Strings(texts)
	for _, text := range texts {
		fmt.Println(text, folded[text])
	}
}
