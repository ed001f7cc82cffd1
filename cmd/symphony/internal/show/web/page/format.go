package page

import (
	"fmt"
	"html/template"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// The limits of a line on a page, in bytes. The whole log contains everything.
const (
	longestText   = 2000
	longestDetail = 300
)

// when is a moment, a time.Time or a pointer to a time.Time. The script of the pages shows how
// long ago or in how long it is, so that a page only changes with its facts; without the
// script it is the time in UTC.
func when(v any) template.HTML {
	t, ok := v.(time.Time)
	if p, isPointer := v.(*time.Time); isPointer && p != nil {
		t = *p
		ok = true
	}
	if !ok || t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time data-relative datetime="` + t.Format(time.RFC3339) + `">` +
		t.Format("2 Jan 15:04") + ` UTC</time>`) // digits only
}

func took(since, until time.Time) string { return text.Duration(until.Sub(since)) }

// elapsed is the time since a moment, in the manner of when.
func elapsed(v any) template.HTML {
	since := strings.Replace(string(when(v)), "relative", `relative="for"`, 1)
	return template.HTML(strings.Replace(since, ">", ">since ", 1)) //nolint:gosec // ours
}

// command is a command of symphony with a button that copies it, which needs the script.
func command(line string) template.HTML {
	shown := template.HTMLEscapeString(text.Visible(line))
	button := `<button type="button" class="copy quiet" title="Copy" aria-label="Copy ` + shown + `">`
	html := `<code>` + shown + `</code>` + button + string(icon("copy")) + `</button>`
	return template.HTML(html) //nolint:gosec // escaped
}

// marked is a text of ours with commands and keys between backquotes.
func marked(s string) template.HTML {
	var b strings.Builder
	for n, part := range strings.Split(s, "`") {
		shown := template.HTMLEscapeString(text.Visible(part))
		switch {
		case n%2 == 0:
			b.WriteString(shown)
		case strings.Contains(part, " "):
			b.WriteString(string(command(part)))
		default:
			b.WriteString("<code>" + shown + "</code>")
		}
	}
	return template.HTML(b.String()) //nolint:gosec // escaped
}

// icons returns the lines of pictures of 16 by 16.
var icons = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"alert":  "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.6v.1",
		"auto":   "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
		"check":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.5 8.2l1.8 1.8 3.4-3.8",
		"clock":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.6",
		"copy":   "M6 6h7v7H6zM10 6V3H3v7h3",
		"diff":   "M8 2.5v6M5 5.5h6M5 12.5h6",
		"info":   "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5v3.3M8 5.1v.1",
		"menu":   "M3 8h.1M8 8h.1M13 8h.1",
		"link":   "M9 3h4v4M13 3 7.5 8.5M11 9.5V13H3V5h3.5",
		"moon":   "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7z",
		"pause":  "M5.5 3.5v9M10.5 3.5v9",
		"search": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.4 10.4 13.5 13.5",
		"stop":   "M5.4 2h5.2L14 5.4v5.2L10.6 14H5.4L2 10.6V5.4zM8 5v3.5M8 10.9v.1",
		"sun": "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1" +
			"M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
		"working": "M2 8h2.5L6.5 3l3 10 2-5H14",
	}
})

func icon(name string) template.HTML {
	// ours
	return template.HTML(
		`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="` + icons()[name] + `"/></svg>`,
	)
}

// sentence begins a text with a capital letter.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// amount is a number of tokens, or of money in a currency.
func amount(n float64, unit string) string {
	if unit == "tokens" {
		return text.Count(int64(n)) + " tokens"
	}
	return fmt.Sprintf("%.2f %s", n, unit)
}

// money is an amount in its currency, such as "1.20 USD".
func money(c *view.Cost) string { return amount(float64(c.Amount), c.Currency) }

// seconds is a duration, such as "1m 5s".
func seconds(s float64) string { return text.Duration(time.Duration(s * float64(time.Second))) }

// inWords is a name of ours as text: handed_over becomes "handed over".
func inWords(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") }

// shorten makes a text visible, which may have several lines, and cuts it.
func shorten(s string, most int) string {
	cut := text.Within(s, most)
	if cut == s {
		return text.VisibleLines(s)
	}
	return text.VisibleLines(cut) + fmt.Sprintf(" … %s more", text.BytesText(int64(len(s)-len(cut))))
}
