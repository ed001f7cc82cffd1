package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// manPages are the pages in the man macros, by the name of their file.
func manPages(app *cli.App, day, release string) map[string]string {
	all := map[string]string{"symphony.1": manOverview(app, day, release)}
	for _, p := range pages(app) {
		all["symphony-"+p.name+".1"] = manPage(p, day, release)
	}
	return all
}

func manOverview(app *cli.App, day, release string) string {
	m := newManual("symphony", app.Usage, day, release)
	m.section("SYNOPSIS")
	m.line(bold("symphony") + ` \fICOMMAND\fR [\fIflags\fR] [\fIarguments\fR]`)
	m.section("DESCRIPTION")
	m.paragraphs(paragraphs(manualIntroduction + "\n\n" + manualHabits))
	m.section("COMMANDS")
	for _, p := range pages(app) {
		m.term(bold("symphony-"+p.name)+"(1)", p.about)
	}
	for _, s := range []struct {
		name  string
		terms []meaning
	}{{"ENVIRONMENT", manualEnvironment()}, {"FILES", manualFiles()}, {"EXIT STATUS", manualExitCodes()}} {
		m.section(s.name)
		for _, t := range s.terms {
			m.term(bold(t.word), t.text)
		}
	}
	m.section("EXAMPLES")
	m.asIs([]string{"symphony init", "symphony doctor", "symphony run ABC-1", "symphony schedule install", "symphony ps"})
	return m.String()
}

func manPage(p page, day, release string) string {
	m := newManual("symphony-"+p.name, p.about, day, release)
	m.section("SYNOPSIS")
	for i, usage := range p.usage {
		if i > 0 {
			m.line(".br")
		}
		m.line(bold("symphony "+p.name) + escapeRoff(strings.TrimPrefix(usage, "symphony "+p.name)))
	}
	if len(p.text) > 0 {
		m.section("DESCRIPTION")
		m.paragraphs(p.text)
	}
	if len(p.flags) > 0 {
		m.section("OPTIONS")
		for _, f := range p.flags {
			m.term(manFlag(f), f.about)
		}
	}
	m.section("SEE ALSO")
	m.line(bold("symphony") + "(1)")
	return m.String()
}

// manual is a page in the making.
type manual struct{ strings.Builder }

func newManual(name, about, day, release string) *manual {
	m := &manual{}
	m.line(fmt.Sprintf(`.TH "%s" 1 "%s" "symphony %s"`, strings.ToUpper(name), day, escapeRoff(release)))
	m.section("NAME")
	m.line(escapeRoff(name) + ` \- ` + escapeRoff(about))
	return m
}

func (m *manual) line(s string) { m.WriteString(s + "\n") }

func (m *manual) section(name string) { m.line(".SH " + name) }

func (m *manual) term(word, meaning string) {
	m.line(".TP")
	m.line(word)
	m.line(escapeRoff(meaning))
}

func (m *manual) paragraphs(all []paragraph) {
	for i, p := range all {
		switch {
		case p.asIs:
			if i > 0 {
				m.line(".PP")
			}
			m.asIs(p.lines)
		default:
			if i > 0 {
				m.line(".PP")
			}
			for _, line := range p.lines {
				m.line(escapeRoff(line))
			}
		}
	}
}

// asIs shows lines as they stand.
func (m *manual) asIs(lines []string) {
	m.line(".RS 4\n.nf")
	for _, line := range outdent(lines) {
		m.line(escapeRoff(line))
	}
	m.line(".fi\n.RE")
}

// outdent takes away the blanks that all lines begin with.
func outdent(lines []string) []string {
	common := -1
	for _, line := range lines {
		if n := len(line) - len(strings.TrimLeft(line, " ")); strings.TrimSpace(line) != "" && (common < 0 || n < common) {
			common = n
		}
	}
	var out []string
	for _, line := range lines {
		out = append(out, line[min(max(common, 0), len(line)):])
	}
	return out
}

// manFlag shows a flag's names bold, and what stands for its value in italics.
func manFlag(f flagEntry) string {
	var names []string
	for name := range strings.SplitSeq(f.names, ", ") {
		name, placeholder, found := strings.Cut(name, " ")
		name = bold(name)
		if found {
			name += ` \fI` + escapeRoff(placeholder) + `\fR`
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func bold(s string) string { return `\fB` + escapeRoff(s) + `\fR` }

// escapeRoff makes text that roff shows as it is: a hyphen stays one that can be copied, and no line is a request.
func escapeRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "…", `\&...`,
		"✓", `\(OK`, "✗", "x", "→", `\->`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
