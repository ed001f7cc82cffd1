package term

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// printTemplate prints a document by the template of --template. Control characters in the document become escapes; those of the
// template are kept. A table that the template has not rendered ends the output.
func (w *Env) printTemplate(data []byte) error {
	document, err := decode(data)
	if err != nil {
		return err
	}
	t, rows := w.Query.template, &templateRows{}
	err = t.Funcs(w.templateFunctions(rows)).Execute(w.Stdout, templateValue(document))
	fmt.Fprint(w.Stdout, w.renderRows(rows))
	if err != nil {
		return fmt.Errorf("--template: %s", strings.TrimPrefix(err.Error(), "template: :"))
	}
	return nil
}

// templateValue is a decoded value as templates compare and print it: whole numbers are ints, other numbers floats.
func templateValue(v any) any {
	switch v := v.(type) {
	case string:
		return text.VisibleLines(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64() // it was written by encoding/json
		return f
	case []any:
		for i := range v {
			v[i] = templateValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = templateValue(v[name])
		}
	}
	return v
}

// templateRows are the rows of tablerow that tablerender has not printed yet.
type templateRows struct{ rows [][]string }

// templateFunctions are those of gh's --template.
func (w *Env) templateFunctions(table *templateRows) template.FuncMap {
	return template.FuncMap{
		"autocolor": func(style string, v any) (string, error) {
			if !w.Colour {
				return templateText(v), nil
			}
			return colourText(style, v)
		},
		"color":     colourText,
		"hyperlink": func(url string, v any) string { return w.Link(url, cmp.Or(templateText(v), url)) },
		"join": func(separator string, list []any) string {
			return strings.Join(text.Map(list, templateText), separator)
		},
		"pluck": func(member string, list []any) []any {
			return text.Map(list, func(v any) any {
				object, _ := v.(map[string]any)
				return object[member]
			})
		},
		"tablerow": func(cells ...any) string {
			table.rows = append(table.rows, text.Map(cells, templateText))
			return ""
		},
		"tablerender": func() string { return w.renderRows(table) },
		"timeago": func(v any) (string, error) {
			t, err := templateTime(v)
			return text.Age(w.Now(), t) + " ago", err
		},
		"timefmt": func(layout string, v any) (string, error) {
			t, err := templateTime(v)
			return t.Format(layout), err
		},
		"truncate": func(width int, v any) string { return CutCells(templateText(v), width) },
	}
}

func templateText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func templateTime(v any) (time.Time, error) { return time.Parse(time.RFC3339, templateText(v)) }

// ansiCodes are the colours and attributes of gh's color function.
var ansiCodes = map[string]string{
	"black": "30", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36", "white": "37", "default": "39",
	"b": "1", "d": "2", "u": "4", "i": "7", "s": "9",
}

// colourText paints a value in a style: a colour, to which attributes may be added, as in green+b.
func colourText(style string, v any) (string, error) {
	colour, attributes, _ := strings.Cut(style, "+")
	var codes []string
	for _, name := range append([]string{colour}, strings.Split(attributes, "")...) {
		code, known := ansiCodes[name]
		if !known {
			return "", fmt.Errorf("unknown colour %q: use black, red, green, yellow, blue, magenta, cyan or white, with +b for bold", style)
		}
		codes = append(codes, code)
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + templateText(v) + PlainText, nil
}

// renderRows returns the collected rows and forgets them: on a terminal aligned, and with the widest columns cut until the rows fit;
// separated by tabs in a pipe.
func (w *Env) renderRows(table *templateRows) string {
	var widths []int
	total := -len("  ")
	for _, row := range table.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, total = append(widths, 0), total+len("  ")
			}
			widths[i] = max(widths[i], Cells(cell))
		}
	}
	for _, width := range widths {
		total += width
	}
	for ; w.Width > 0 && total > w.Width; total-- {
		widest := 0 // of several the last
		for i, width := range widths {
			if width >= widths[widest] {
				widest = i
			}
		}
		widths[widest]--
	}
	var out strings.Builder
	for _, row := range table.rows {
		if w.Width == 0 {
			out.WriteString(strings.Join(row, "\t") + "\n")
			continue
		}
		line := ""
		for i, cell := range row {
			cell = CutCells(cell, max(widths[i], 1))
			line += cell + strings.Repeat(" ", max(widths[i]-Cells(cell), 0)+len("  "))
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	table.rows = nil
	return out.String()
}
