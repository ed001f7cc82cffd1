package workflow

import (
	"regexp"
	"slices"
	"strings"

	"github.com/osteele/liquid/parser"

	"github.com/symphony-cron/symphony/internal/text"
)

// otherTags says what to write for tags of Jinja, Twig and other template languages that Liquid,
// or this implementation of it, does not know.
func otherTags() map[string]string {
	const one = singleText
	return map[string]string{
		"block":    one,
		"each":     "write {% for label in issue.labels %} … {% endfor %}",
		"echo":     "write {{ VALUE }}",
		"elif":     "write {% elsif … %}",
		"elseif":   "write {% elsif … %}",
		"end":      "write {% endif %}, {% endfor %} or the end of another block",
		"extends":  one,
		"foreach":  "write {% for label in issue.labels %} … {% endfor %}",
		"from":     one,
		"import":   one,
		"include":  one,
		"let":      "write {% assign NAME = VALUE %}",
		"macro":    one,
		"partial":  one,
		"print":    "write {{ VALUE }}",
		"render":   one,
		"set":      "write {% assign NAME = VALUE %}",
		"switch":   "write {% case VALUE %} {% when \"A\" %} … {% endcase %}",
		"var":      "write {% assign NAME = VALUE %}",
		"verbatim": "write {% raw %} … {% endraw %}",
	}
}

const singleText = "the prompt is a single text: write that part into it"

// liquidTags are the tags that there are.
func liquidTags() []string {
	return strings.Fields("assign break capture endcapture case endcase comment endcomment continue cycle else elsif " +
		"for endfor if endif raw endraw tablerow endtablerow unless endunless when")
}

// habit is a way to write something that another template language has, and what Liquid has
// instead.
type habit struct {
	// sign is a part of everything that the pattern matches, such as "&&", or empty. Each pass
	// reads the prompt, and patterns whose sign is not in it need not be compiled.
	sign    string
	pattern func() *regexp.Regexp
	instead string
}

// tagHabits are in tags, with their names before their arguments.
var tagHabits = []habit{
	{"else ", text.Pattern(`^else\s+\S`), "write {% elsif … %}: {% else %} takes no condition"},
	{
		" is ",
		text.Pattern(`^(if|elsif)\b.*\bis\s+(not\s+)?(defined|none|null|empty)\b`),
		"write {% if x %}, or {% unless x %}",
	},
	{"not", text.Pattern(`^(if|elsif|unless)\b.*\bnot\b`), noNegation},
	{"!", text.Pattern(`^(if|elsif|unless)\b.*!\s*\w`), noNegation},
	{"&&", text.Pattern(`^(if|elsif|unless)\b.*&&`), "write and instead of &&"},
	{"||", text.Pattern(`^(if|elsif|unless)\b.*\|\|`), "write or instead of ||"},
	{"=", text.Pattern(`^(if|elsif|unless)\b[^=]*[^=!<>]=([^=]|$)`), "write ==, which compares"},
	{"===", text.Pattern(`^(if|elsif|unless)\b.*===`), "write ==, which compares"},
	{" in ", text.Pattern(`^(if|elsif|unless)\b.*\sin\s`), "write LIST contains \"x\""},
	{" of ", text.Pattern(`^for\s+\w+\s+of\b`), "write {% for label in issue.labels %}"},
	{",", text.Pattern(`^for\s+\w+\s*,`), "write one variable: {% for label in issue.labels %}"},
	{"range", text.Pattern(`\brange\s*\(`), "write {% for i in (1..3) %}"},
	{" or ", text.Pattern(`^assign\b.*\sor\s+"`), `write {% assign NAME = VALUE | default: "none" %}`},
}

const noNegation = "write {% unless x %}, or x == nil: there is no negation"

// valueHabits are between {{ and }}.
var valueHabits = []habit{
	{"#", text.Pattern(`^#\s*(if|unless)\b`), "write {% if x %} … {% endif %}"},
	{"#", text.Pattern(`^#\s*each\b`), "write {% for label in issue.labels %} … {% endfor %}"},
	{"/", text.Pattern(`^/`), "write {% endif %}, {% endfor %} or the end of another block"},
	{
		"",
		text.Pattern(`^(else|if|end|range|with|define|template)(\s|$)`),
		"write it as a tag: {% if x %} … {% else %} … {% endif %}",
	},
	{
		"",
		text.Pattern(`^[>#^!]`),
		"write {% … %} for what is no value, such as {% if x %} or {% comment %}",
	},
	{"", text.Pattern(`^(include|render|import|partial|file)\b[\s:(]`), singleText},
	{"", text.Pattern(`^\.\w`), "write the name without a dot before it, such as issue.title"},
	{"~", text.Pattern(`\s~\s`), "write one {{ … }} after the other, or the filter append"},
	{" if ", text.Pattern(`\sif\s`), "write {% if x %} … {% else %} … {% endif %}"},
	{"?", text.Pattern(`\s\?\s`), "write {% if x %} … {% else %} … {% endif %}"},
	{"", text.Pattern(`\s(or|\|\||\?\?)\s`), `write {{ issue.description | default: "none" }}`},
	{"", text.Pattern(`\s(and|&&)\s`), "write {% if x %} … {% endif %}"},
	{"+", text.Pattern(`\w\s+\+\s`), "write one {{ … }} after the other, or the filter append or plus"},
}

const colonBefore = `write a colon before the arguments of a filter: {{ issue.labels | join: ", " }}`

// everyHabits are in both.
var everyHabits = []habit{
	{"|", text.Pattern(`\|\s*\w+\s+["'\d]`), colonBefore},
	{
		"(",
		text.Pattern(`\|\s*\w+\s*\(`),
		colonBefore,
	},
	{
		"(",
		text.Pattern(`\.\w+\s*\(`),
		`write a filter, as in {{ issue.title | upcase }}: values have no methods`,
	},
}

// literal matches a text in quotes.
var literal = text.Pattern(`"(?:\\.|[^"\\])*"|'[^']*'`)

// otherDialect returns how Liquid says what a token says in the words of another template
// language; empty for a token of Liquid.
func otherDialect(token parser.Token) string {
	args := token.Args
	if strings.ContainsAny(args, `"'`) {
		args = literal().ReplaceAllString(args, `""`)
	}
	habits := slices.Concat(valueHabits, everyHabits)
	if token.Type == parser.TagTokenType {
		if instead := otherTag(token.Name); instead != "" {
			return instead
		}
		args = token.Name + " " + args
		habits = slices.Concat(tagHabits, everyHabits)
	}
	args = strings.Join(strings.Fields(args), " ")
	isHabit := func(h habit) bool { return strings.Contains(args, h.sign) && h.pattern().MatchString(args) }
	instead := text.First(habits, isHabit).instead
	if instead != "" && !namesIssue().MatchString(args) {
		instead += "; or " + putRaw
	}
	return instead
}

// namesIssue matches what is about the issue of a prompt, and so no example in another language.
var namesIssue = text.Pattern(`\b(issue|attempt|label|title|description)\b`)

// putRaw says how text is no template.
const putRaw = "put {% raw %} … {% endraw %} around text that the agent is to read as it is"

// otherTag returns what to write for a tag of another template language; empty for a tag of
// Liquid, and for a tag that resembles none.
func otherTag(name string) string {
	known := liquidTags()
	if slices.Contains(known, name) {
		return ""
	}
	if instead := otherTags()[name]; instead != "" {
		return instead
	}
	near := text.Nearest(name, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean {% " + near[0] + " %}?"
}

// otherNames are the names of other template languages and programs for fields, filters and
// constants.
func otherNames(what string) map[string]string {
	switch what {
	case "filter":
		return map[string]string{
			"count":     "size",
			"d":         "default",
			"dump":      "json",
			"e":         "escape",
			"len":       "size",
			"length":    "size",
			"lower":     "downcase",
			"lowercase": "downcase",
			"nl2br":     "newline_to_br",
			"striptags": "strip_html",
			"title":     "capitalize",
			"to_json":   "json",
			"tojson":    "json",
			"trim":      "strip",
			"upper":     "upcase",
			"uppercase": "upcase",
		}
	case "variable":
		return map[string]string{
			"None":  "nil",
			"none":  "nil",
			"True":  "true",
			"False": "false",
			"loop":  "forloop",
			"task":  "issue",

			"attempts":  "attempt",
			"item":      "issue",
			"iteration": "attempt",
			"retries":   "attempt",
			"retry":     "attempt",
			"story":     "issue",
			"ticket":    "issue",
			"try":       "attempt",
		}
	}
	return nil
}

// otherFields are the fields of an issue by the names that other programs give them.
func otherFields() map[string]string {
	return map[string]string{
		"name":     "title",
		"subject":  "title",
		"summary":  "title",
		"body":     "description",
		"content":  "description",
		"text":     "description",
		"key":      "identifier",
		"status":   "state",
		"link":     "url",
		"tags":     "labels",
		"html_url": "url",
	}
}
