package page

import (
	"html"
	"html/template"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

var (
	mdHeading = text.Pattern(`^#{1,6} +(.*)$`)
	mdSpan    = text.Pattern("`([^`]+)`" + `|\*\*([^*\s][^*]*)\*\*|\*([^*\s][^*\n]*)\*` +
		`|!?\[([^\]\n]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)` + "|(https?://[^\\s<>\"'`]*[^\\s<>\"'`.,:;!?)\\]*_])")
)

// markdown draws what an agent says, which is visible already: code, headings, emphasis and links. Everything else stays text with its
// lines, as lists and tables are written to be read; so does HTML. No image is loaded, and a link shows to which machine it leads.
func markdown(s string) template.HTML {
	var out strings.Builder
	fence := ""
	for n, line := range strings.Split(s, "\n") {
		sign := strings.TrimSpace(line)
		heading := mdHeading().FindStringSubmatch(line)
		switch {
		case fence == "" && (strings.HasPrefix(sign, "```") || strings.HasPrefix(sign, "~~~")):
			fence = sign[:len(sign)-len(strings.TrimLeft(sign, sign[:1]))]
			out.WriteString("<pre>")
		case fence != "" && sign == fence:
			fence = ""
			out.WriteString("</pre>")
		case fence != "":
			out.WriteString(html.EscapeString(line) + "\n")
		case heading != nil:
			out.WriteString(`<strong>` + spans(heading[1]) + "</strong>\n")
		case n > 0 || sign != "":
			out.WriteString(spans(line) + "\n")
		}
	}
	if fence != "" {
		out.WriteString("</pre>")
	}
	return template.HTML(strings.TrimSuffix(out.String(), "\n")) //nolint:gosec // tags of ours and escaped text
}

// spans draws the text of a line. The cost of the pattern can grow with the square of the length, so that of a very long line stays text.
func spans(s string) string {
	var out strings.Builder
	plain := 0
	for _, at := range mdSpan().FindAllStringSubmatchIndex(text.Within(s, longestText), -1) {
		out.WriteString(html.EscapeString(s[plain:at[0]]))
		plain = at[1]
		part := func(n int) string { return html.EscapeString(s[max(at[2*n], 0):max(at[2*n+1], 0)]) }
		address := s[max(at[10], 0):max(at[11], 0)]
		site, err := url.Parse(address)
		switch {
		case part(1) != "":
			out.WriteString("<code>" + part(1) + "</code>")
		case part(2) != "":
			out.WriteString("<strong>" + part(2) + "</strong>")
		case part(3) != "":
			out.WriteString("<em>" + part(3) + "</em>")
		case part(6) != "":
			out.WriteString(outside(part(6), part(6)))
		case err != nil || ofWeb(address) == "":
			out.WriteString(part(4) + " (<code>" + part(5) + "</code>)")
		default: // the words are the agent's, so the name of the site follows them
			out.WriteString(outside(part(5), part(4)) + ` <span class="soft">(` + html.EscapeString(site.Host) + ")</span>")
		}
	}
	return out.String() + html.EscapeString(s[plain:])
}

// outside is a link to another site.
func outside(address, words string) string {
	return `<a class="outside" rel="noreferrer noopener nofollow" href="` + address + `">` + words + "</a>"
}
