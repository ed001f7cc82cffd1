package page

import (
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// A line of an agent is never more than a line, whatever its Markdown begins.
func TestMarkdownLine(t *testing.T) {
	for words, want := range map[string]string{
		"I use `max-width`, **really**":   "I use <code>max-width</code>, <strong>really</strong>",
		"## What I did":                   "What I did",
		"- one\n- two":                    "one - two",
		"```go\nif a {\n```":              "<code>go if a { </code>",
		"    indented":                    "indented",
		"| a | b |\n|---|---|":            "| a | b | |---|---|",
		"a\n===":                          "a ===",
		"<b>bold</b> <script>":            "&lt;b&gt;bold&lt;/b&gt; &lt;script&gt;",
		"[x](javascript:alert(1)) \x1b[m": "x (<code>javascript:alert(1)</code>) \\x1b[m",
		"":                                "",
	} {
		test.Equal(t, words, string(markdownLine(words)), want)
	}
}

// What agents write as Markdown, and the HTML of it.
func TestMarkdown(t *testing.T) {
	link := func(address, words string) string {
		return `<a class="outside" rel="noreferrer noopener nofollow" href="` + address + `">` + words + "</a>"
	}
	for _, c := range []struct{ words, want string }{
		{"one\ntwo\n\nthree", "<p>one<br>\ntwo</p>\n<p>three</p>\n"},
		{
			"- two\n  1. three\n\n> said",
			"<ul>\n<li>two\n<ol>\n<li>three</li>\n</ol>\n</li>\n</ul>\n<blockquote>\n<p>said</p>\n</blockquote>\n",
		},
		{"# A\n### B\n###### C", "<h3>A</h3>\n<h3>B</h3>\n<h3>C</h3>\n"},
		{
			"## What I did\nIt *works*, **really**: `a < b`.",
			"<h3>What I did</h3>\n<p>It <em>works</em>, <strong>really</strong>: <code>a &lt; b</code>.</p>\n",
		},
		{
			"```go\thidden\nif *a* {\n\tb()\n}\n```\nafter",
			"<pre><code>if *a* {\n\tb()\n}\n</code></pre>\n<p>after</p>\n",
		},
		{"```\nnever closed", "<pre><code>never closed\n</code></pre>\n"},
		{"some_file_name.go, 2 * 3 * 4, a**", "<p>some_file_name.go, 2 * 3 * 4, a**</p>\n"},
		{"| a | b |\n|---|---|\n| ~~1~~ | 2 |", "<pre><code>| a | b |\n|---|---|\n| ~~1~~ | 2 |</code></pre>\n"},
		{
			"| a\n*b*\n\n> | *b* |\n> |:--|",
			"<p>| a<br>\n<em>b</em></p>\n<blockquote>\n<pre><code>| *b* |\n|:--|</code></pre>\n</blockquote>\n",
		},
		{"see [the docs](https://example.com/a_(b)) and (https://x.org/a_b_c), **https://y.org**.", "<p>see " +
			link(
				"https://example.com/a_(b)",
				`the docs <span class="soft">(example.com)</span>`,
			) + " and (" + link("https://x.org/a_b_c", "https://x.org/a_b_c") +
			"), <strong>" + link("https://y.org", "https://y.org") + "</strong>.</p>\n"},
		{
			"<https://x.org> [me](mailto:a@b.c)",
			"<p>" + link("https://x.org", "https://x.org") + " " + link("mailto:a@b.c", `me <span class="soft">(a@b.c)</span>`) + "</p>\n",
		},
		{
			"[main.go](/srv/main.go:12) [x](javascript:alert(1)) [y](data:text/html,z) " +
				"[z](JaVa&#x53;cript:1) <javascript:1>",
			"<p>main.go (<code>/srv/main.go:12</code>) " +
				"x (<code>javascript:alert(1)</code>) y (<code>data:text/html,z</code>) z " +
				"(<code>JaVaScript:1</code>) javascript:1</p>\n",
		},
		{
			"[good](https://good.com@evil.org#good.com)",
			"<p>" + link("https://good.com@evil.org#good.com", `good <span class="soft">(evil.org)</span>`) + "</p>\n",
		},
		{
			"![cat](https://example.com/cat.png)",
			"<p>" + link("https://example.com/cat.png", `cat <span class="soft">(example.com)</span>`) + "</p>\n",
		},
		{
			"[![](https://img.org/a.png)](https://x.org)",
			"<p>" + link(
				"https://x.org",
				` (<code>https://img.org/a.png</code>) <span class="soft">(x.org)</span>`,
			) + "</p>\n",
		},
		{"[a]\n\n[a]: https://x.org", "<p>[a]</p>\n<p>[a]: " + link("https://x.org", "https://x.org") + "</p>\n"},
		{
			"<b>bold</b> \x1b[31m \u202egpj.exe &#x202e;",
			`<p>&lt;b&gt;bold&lt;/b&gt; \x1b[31m \x202egpj.exe \x202e</p>` + "\n",
		},
		{"<div>\n*a*", "<p>&lt;div&gt;<br>\n<em>a</em></p>\n"},
	} {
		test.Equal(t, c.words, string(markdown(shorten(c.words, longestWords))), c.want)
	}
}

// Text whose drawing would cost the square of its length stays text.
func TestExpensiveMarkdown(t *testing.T) {
	for _, part := range []string{
		">",
		"> ",
		"- ",
		"* ",
		"+ - 1) ",
		"1. ",
		"[",
		"![",
		"[a](",
		"[](\"",
		"\\``\n",
		" _*",
	} {
		test.Equal(
			t,
			"many "+part,
			markdown(shorten(strings.Repeat(part, 100_000), longestWords))[:5],
			"<pre>",
		)
	}
	test.Contains(
		t,
		"many signs that cost little",
		string(markdown(strings.Repeat("-", 1000)+"\n\n"+strings.Repeat("- a\n", 1000))),
		"<hr>",
		"<li>a</li>",
	)
}

// Addresses in a link that is never closed are drawn in a few milliseconds. It took ten
// seconds when each of them was sought to the end of the line.
func TestAddressesInALink(t *testing.T) {
	begin := time.Now()
	markdown("[" + strings.Repeat("(http://x", longestWords/9))
	if took := time.Since(begin); took > time.Second {
		t.Error(took)
	}
}

// No Markdown makes an element, an attribute or a character that is not ours, or costs more
// than its length.
func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{
		evil,
		"[" + evil + "](https://x.org/" + evil + ")",
		"`" + evil + "`",
		"- " + evil + "\n  - " + evil,
		"> " + evil,
		"```\n" + evil,
		"**" + evil + "**",
		`[a](https://x.org/"onclick="alert(1)) https://x.org/"onclick="alert(1)`,
		"[a](https://[::1)",
		"<https://x.org/<script>>",
		"![a](https://x.org/a'b)",
		strings.Repeat("*a ", 30_000),
		strings.Repeat("[", 30_000),
		strings.Repeat("> ", 30_000),
		strings.Repeat("- ", 30_000) + "x",
		strings.Repeat("`a``", 10_000),
		strings.Repeat("[a](", 10_000), strings.Repeat("**a*_", 10_000), strings.Repeat("https://", 5000),
		"&#x202e;&#0;&#27;",
		"[a](https://&#x202e;)",
		"```&#x202e; \" onclick=\n",
		"<https://&#34;onclick=>",
		"# a\n\n1. > - b\n\n***",
		"a\\\nb  \nc",
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
