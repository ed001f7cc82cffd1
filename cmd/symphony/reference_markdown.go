package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// referenceMarkdown is the manual as one page.
func referenceMarkdown(app *cli.App) string {
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Made from the commands by `symphony reference markdown`; the test TestCommandReference says how. -->\n\n")
	b.WriteString(manualHabits + "\n\n")
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, p := range pages(app) {
		fmt.Fprintf(&b, "| [`%s`](#symphony-%s) | %s |\n", p.name, p.name, tableCell(p.about))
	}
	b.WriteString("\n")
	for _, p := range pages(app) {
		p.markdown(&b)
	}
	for _, s := range []struct {
		name, head string
		terms      []meaning
	}{{"Environment", "variable", manualEnvironment()}, {"Files", "file", manualFiles()}, {"Exit codes", "exit", manualExitCodes()}} {
		fmt.Fprintf(&b, "## %s\n\n| %s | meaning |\n|---|---|\n", s.name, s.head)
		for _, t := range s.terms {
			fmt.Fprintf(&b, "| `%s` | %s |\n", t.word, tableCell(t.text))
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (p page) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## symphony %s\n\n%s.\n\n", p.name, capital(p.about))
	codeBlock(b, p.usage)
	for _, para := range p.text {
		if para.asIs {
			codeBlock(b, outdent(para.lines))
			continue
		}
		for _, line := range para.lines {
			b.WriteString(escapeMarkdown(line) + "\n")
		}
		b.WriteString("\n")
	}
	if len(p.flags) == 0 {
		return
	}
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, f := range p.flags {
		fmt.Fprintf(b, "| `%s` | %s |\n", f.names, tableCell(f.about))
	}
	b.WriteString("\n")
}

func codeBlock(b *strings.Builder, lines []string) {
	b.WriteString("```\n" + strings.Join(lines, "\n") + "\n```\n\n")
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func tableCell(s string) string { return strings.ReplaceAll(escapeMarkdown(s), "|", `\|`) }

// escapeMarkdown keeps what would be markup as text.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "<", `\<`, "`", "\\`", "[", `\[`).Replace(s)
}
