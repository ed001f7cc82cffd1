package page

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// Each colour of text has a contrast of at least 4.5 to each surface on which the style sheet
// puts it, in both themes (WCAG AA); lines that belong to controls have 3.
func TestContrast(t *testing.T) {
	css := test.Must(os.ReadFile("assets/page.css"))
	tokens := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]{6}), `+
		`(#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(css), -1) {
		tokens[m[1]] = [2]string{m[2], m[3]}
	}
	for pair, least := range map[string]float64{
		"text canvas":        4.5,
		"text surface":       4.5,
		"text raised":        4.5,
		"soft canvas":        4.5,
		"soft surface":       4.5,
		"soft raised":        4.5,
		"text warn-soft":     4.5,
		"text bad-soft":      4.5,
		"text good-soft":     4.5,
		"text accent-soft":   4.5,
		"soft warn-soft":     4.5,
		"soft bad-soft":      4.5,
		"accent canvas":      4.5,
		"accent surface":     4.5,
		"accent raised":      4.5,
		"accent accent-soft": 4.5,
		"accent warn-soft":   4.5,
		"accent bad-soft":    4.5,
		"on-accent accent":   4.5,
		"good surface":       4.5,
		"good canvas":        4.5,
		"good good-soft":     4.5,
		"warn surface":       4.5,
		"warn canvas":        4.5,
		"warn warn-soft":     4.5,
		"bad surface":        4.5,
		"bad canvas":         4.5,
		"bad bad-soft":       4.5,
		"on-bad bad-strong":  4.5,
		"soft good-soft":     4.5,
		"word surface":       4.5,
		"word good-soft":     4.5,
		"word bad-soft":      4.5,
		"value surface":      4.5,
		"value good-soft":    4.5,
		"value bad-soft":     4.5,
		"edge surface":       3,
		"edge canvas":        3,
		"bad-strong surface": 3,
	} {
		ink, ground, _ := strings.Cut(pair, " ")
		for i, theme := range []string{"light", "dark"} {
			if got := contrast(t, tokens[ink][i], tokens[ground][i]); got < least {
				t.Errorf(
					"%s on %s has a contrast of %.2f in the %s theme, not %.1f",
					ink,
					ground,
					got,
					theme,
					least,
				)
			}
		}
	}
}

// contrast is that of two colours by WCAG 2.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n := test.Must(strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8))
			c := float64(n) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x := luminance(a)
	y := luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// The picture of a tab shows the number of requests.
func TestIcon(t *testing.T) {
	for requests, want := range map[int]string{0: "", 1: ">1<", 12: ">9+<"} {
		icon := string(Page{Requests: requests}.Icon())
		test.Equal(t, "the beginning of the icon", icon[:19], "data:image/svg+xml,")
		test.Equal(t, "the icon has a text", strings.Contains(icon, "%3Ctext"), want != "")
		test.Lacks(t, "the page", string(Page{
			Requests: requests,
			Title:    "Overview",
		}.Document()), "ZgotmplZ")
	}
}

// A moment is written in UTC for readers without the script.
func TestWhen(t *testing.T) {
	at := time.Date(2026, 2, 24, 21, 15, 0, 0, time.FixedZone("", 3600))
	test.Equal(
		t,
		"the moment",
		when(&at),
		`<time data-relative datetime="2026-02-24T20:15:00Z">24 Feb 20:15 UTC</time>`,
	)
	test.Equal(t, "no moment", when((*time.Time)(nil)), "")
}

// A text that is missing stays empty.
func TestSentence(t *testing.T) {
	for given, want := range map[string]string{"": "", "émile": "Émile", "a b": "A b"} {
		test.Equal(t, given, sentence(given), want)
	}
}
