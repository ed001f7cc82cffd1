package page

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// What agents write as Markdown, and the HTML of it.
func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"one\n- two\n  - three\n\n| a | b |", "one\n- two\n  - three\n\n| a | b |"},
		{"## What I did\nIt *works*, **really**: `a < b`.", "<strong>What I did</strong>\nIt <em>works</em>, <strong>really</strong>: <code>a &lt; b</code>."},
		{"```go\nif *a* {\n\tb()\n}\n```\nafter", "<pre>if *a* {\n\tb()\n}\n</pre>after"},
		{"```\nnever closed", "<pre>never closed\n</pre>"},
		{"some_file_name.go, 2 * 3 * 4, a**", "some_file_name.go, 2 * 3 * 4, a**"},
		{"see [the docs](https://example.com/a_(b)) and https://x.org/y.", `see <a class="outside" rel="noreferrer noopener nofollow" href="https://example.com/a_(b)">the docs</a>` +
			` <span class="soft">(example.com)</span> and <a class="outside" rel="noreferrer noopener nofollow" href="https://x.org/y">https://x.org/y</a>.`},
		{"[main.go](/srv/main.go:12) [x](javascript:alert(1)) [y](data:text/html,z)", "main.go (<code>/srv/main.go:12</code>) x (<code>javascript:alert(1)</code>) y (<code>data:text/html,z</code>)"},
		{"[good](https://good.com@evil.org#good.com)", `<a class="outside" rel="noreferrer noopener nofollow" href="https://good.com@evil.org#good.com">good</a> <span class="soft">(evil.org)</span>`},
		{"![cat](https://example.com/cat.png)", `<a class="outside" rel="noreferrer noopener nofollow" href="https://example.com/cat.png">cat</a> <span class="soft">(example.com)</span>`},
		{"<b>bold</b> \x1b[31m \u202egpj.exe", `&lt;b&gt;bold&lt;/b&gt; \x1b[31m \x202egpj.exe`},
	} {
		test.Equal(t, c.words, string(markdown(shorten(c.words, longestWords))), c.want)
	}
}

// No Markdown makes an element, an attribute or a character that is not ours, or costs more than its length.
func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{
		evil, "[" + evil + "](https://x.org/" + evil + ")", "`" + evil + "`", "- " + evil + "\n  - " + evil, "> " + evil, "```\n" + evil, "**" + evil + "**",
		`[a](https://x.org/"onclick="alert(1)) https://x.org/"onclick="alert(1)`, "[a](https://[::1)", "<https://x.org/<script>>", "![a](https://x.org/a'b)",
		strings.Repeat("*a ", 30_000), strings.Repeat("[", 30_000), strings.Repeat("> ", 30_000), strings.Repeat("- ", 30_000) + "x", strings.Repeat("`a``", 10_000),
		strings.Repeat("[a](", 10_000), strings.Repeat("**a*_", 10_000), strings.Repeat("https://", 5000), strings.Repeat("x", 10<<20),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, words string) {
		p := Page{Main: markdown(shorten(words, longestWords))}
		for _, r := range checkHTML(t, p) {
			if r == '\u202e' || r == '\x1b' || r == 0 {
				t.Errorf("the page has the character %U", r)
			}
		}
		if most := 200_000 + 10*longestWords; len(p.Main) > most {
			t.Error(len(words), "bytes became", len(p.Main))
		}
	})
}
