package workflow

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/osteele/liquid"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/render"
	liquidvalues "github.com/osteele/liquid/values"

	"github.com/symphony-cron/symphony/internal/text"
)

// maxValue bounds each value that a template makes, and the whole text, in bytes. Otherwise a
// template that doubles a string sixty times would take all memory. It is more than MaxPrompt,
// so that a template can shorten a long value.
const maxValue = 4 * MaxPrompt

// errTooLarge is the error of a value that would be larger than maxValue.
type errTooLarge struct{ what string }

func (e errTooLarge) Error() string {
	return fmt.Sprintf("%s more than %s, which is the most in a template", e.what, text.BytesText(maxValue))
}

// boundedFilters adds filters to an engine, whose arguments and results are no larger than
// maxValue.
type boundedFilters struct{ engine *liquid.Engine }

// AddFilter implements filters.FilterDictionary.
func (b boundedFilters) AddFilter(name string, filter any) {
	apply := reflect.ValueOf(filter)
	b.engine.RegisterFilter(name, func(args ...any) (any, error) {
		size := growth(name, args)
		for _, arg := range args {
			size += sizeOf(arg)
		}
		if size > maxValue {
			return nil, errTooLarge{"the filter " + name + " gets or makes"}
		}
		result, err := liquidvalues.Call(apply, args)
		if err != nil {
			return nil, err
		}
		if sizeOf(result) > maxValue {
			return nil, errTooLarge{"the filter " + name + " makes"}
		}
		return result, nil
	})
}

// growth returns how much larger than its arguments the result of a filter can be, in bytes.
// It is 0 for filters whose result is at most six times as large.
func growth(name string, args []any) int {
	arg := func(i int) string {
		if i < len(args) && args[i] != nil {
			return fmt.Sprint(args[i])
		}
		return ""
	}
	switch name {
	case "replace":
		return bounded(strings.Count(arg(0), arg(1)), len(arg(2)))
	case "join":
		return bounded(length(args[0]), len(arg(1)))
	case "date":
		return dateSize(arg(1))
	}
	return 0
}

// length returns the number of elements of a list, a map or a range.
func length(list any) int {
	if r, is := list.(liquidvalues.Range); is {
		return max(0, r.Len())
	}
	value := reflect.ValueOf(list)
	switch value.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return value.Len()
	default:
		return 0
	}
}

// bounded returns the size of count values of a size, or any larger number than maxValue.
func bounded(count, size int) int {
	if size > 0 && count > maxValue/size {
		return maxValue + 1
	}
	return count * size
}

// dateField matches a field of a date with its width, if any, such as %d or %1000d.
var dateField = text.Pattern(`%[-_^#0]*(\d*)`)

// maxField is more bytes than the library takes for a field without a width: it makes a list of
// all fields first.
const maxField = 256

// dateSize returns about how many bytes the fields in the format of a date take, or any larger
// number than maxValue.
func dateSize(format string) int {
	if strings.Count(format, "%") > maxValue/maxField {
		return maxValue + 1
	}
	size := 0
	for _, field := range dateField().FindAllStringSubmatch(format, -1) {
		size += maxField
		if field[1] == "" {
			continue
		}
		width, err := strconv.Atoi(field[1])
		if err != nil || width > maxValue-min(size, maxValue) {
			return maxValue + 1
		}
		size += width
	}
	return size
}

// sizeOf returns about how many bytes a value takes, or any larger number than maxValue. A
// value that is several times in a list counts several times, as in the output.
func sizeOf(value any) int {
	const header = 16
	size := header
	switch value := value.(type) {
	case string:
		return header + len(value)
	case []byte:
		return header + len(value)
	case liquidvalues.Range: // which is made a list for most filters
		if value.Len() > maxValue {
			return maxValue + 1
		}
		return header + max(0, value.Len())*header
	case map[string]any:
		for name, field := range value {
			size += len(name) + sizeOf(field)
			if size > maxValue {
				break
			}
		}
		return size
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return size
	}
	for i := 0; i < list.Len() && size <= maxValue; i++ {
		size += sizeOf(list.Index(i).Interface())
	}
	return size
}

// boundedText is a text of at most maxValue bytes. A template writes to it.
type boundedText struct{ strings.Builder }

// Write implements io.Writer.
func (t *boundedText) Write(b []byte) (int, error) {
	if t.Len()+len(b) > maxValue {
		return 0, errTooLarge{"the text has"}
	}
	return t.Builder.Write(b)
}

// WriteString implements io.StringWriter.
func (t *boundedText) WriteString(s string) (int, error) { return t.Write([]byte(s)) }

// captureTag replaces capture in a template, which the library renders without a bound, and
// lets nobody define anew.
const captureTag = "symphony_capture"

// capture renders a block of that name.
func capture(c render.Context) (string, error) {
	var captured boundedText
	if err := c.RenderChildren(&captured); err != nil {
		return "", err
	}
	c.Set(strings.TrimSpace(c.TagArgs()), captured.String())
	return "", nil
}

// newEngine returns an engine whose templates read no files, and have bounds of steps and
// sizes.
func newEngine() *liquid.Engine {
	engine := liquid.NewEngine()
	engine.StrictVariables()
	// These tags read files that the template names.
	engine.UnregisterTag("include")
	engine.UnregisterTag("render")
	engine.RegisterTag(stepTag, countStep)
	engine.RegisterBlock(captureTag, capture)
	filters.AddStandardFilters(boundedFilters{engine})
	return engine
}
