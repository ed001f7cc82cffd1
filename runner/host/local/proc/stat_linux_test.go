package proc

import (
	"strings"
	"testing"
)

// stateOf is the letter after the name in a stat line.
func stateOf(stat string) byte { return stat[strings.LastIndexByte(stat, ')')+2] }

func TestParseStat(t *testing.T) {
	tail := " 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3\n"
	for _, c := range []struct {
		line string
		want entry
	}{
		{"7 (sh) S 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "sh"}},
		{"7 (a) b (c)) R 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "a) b (c)"}},
		{"7 (a\nb) Z 9 9) Z 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "a\nb) Z 9 9", dead: true}},
		{"7 () X 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, dead: true}},
		{"7 (t) Z 3 1" + strings.Replace(tail, " 20 0 1 0 ", " 20 0 2 0 ", 1), entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "t"}},
		{"2 (kthreadd) S 0 0" + strings.Replace(tail, "4194560", "2129984", 1), entry{pid: 2, session: 5, start: 4711, name: "kthreadd", kernel: true}},
		{"7 (z) S 3 1" + strings.Replace(tail, "4711", "18446744073709551615", 1), entry{pid: 7, session: 5, ppid: 3, start: 1<<64 - 1, name: "z"}},
	} {
		got, err := parseStat(c.line)
		if err != nil || got != c.want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{"", "7", "7 sh S 3", "7 (sh", "x (sh) S 3 1" + tail, "7 (sh) S 3 1 1", ") (", "7 (sh) S x 1" + tail, strings.Replace("7 (sh) S 3 1"+tail, " 5 ", " s ", 1)} {
		if e, err := parseStat(line); err == nil {
			t.Errorf("%q: %+v and no error", line, e)
		}
	}
}
