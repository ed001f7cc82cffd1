package file

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// record is the content of a file.
type record struct {
	name         string // of the file
	issue        reconcile.Issue
	dependencies []string
	assignees    []string
	comments     []comment
	state        *yaml.Node
	// returns why it is no issue, with file and line; nil for an issue. The call is slow
	fault      func() string
	statusSeen string // the status, also in a file that is no issue, as far as it can be read
	// a file without an id, because it is empty or ends too early: it may belong to any issue
	nameless bool
	remarks  []string // about what is not read in it, with file and line
}

// span is a part of a file, in bytes.
type span struct{ start, end int }

// identity returns an issue whose id is fit for the name of a branch and for a command line.
func identity(id string) reconcile.Issue {
	for was := ""; id != was; { // the rest may end in .lock again
		was = id
		id = cmp.Or(strings.Trim(unfit().ReplaceAllString(text.Within(id, 120), "-"), ".-"), "-")
	}
	return reconcile.Issue{ID: id, Identifier: id}
}

var unfit = text.Pattern(`[^\pL\pM\pN_.-]+|\.\.+|(?i:\.lock)$`)

// key returns an id as ids are compared: as symphony writes it, in lower case.
func key(id string) string { return strings.ToLower(identity(id).ID) }

// unusable returns the record of a file that is no issue.
func unusable(name, why string) *record {
	return &record{
		name:  name,
		issue: identity(strings.TrimSuffix(name, ".md")),
		fault: func() string { return name + ": " + why },
	}
}

// fence is the line before and after the front matter.
const fence = "---"

// split finds the front matter, as it is between its fences; begun is false if the file
// contains none, and closed if its end is missing.
func split(content []byte) (front span, begun, closed bool) {
	at := 0
	if bytes.HasPrefix(content, []byte("\ufeff")) {
		at = 3
	}
	for line := range bytes.Lines(content[at:]) {
		isFence := string(bytes.TrimRight(line, " \t\r\n")) == fence
		switch {
		case !begun && !isFence:
			return front, false, false
		case !begun:
			begun = true
			front.start = at + len(line)
		case isFence:
			front.end = at
			return front, true, true
		}
		at += len(line)
	}
	return front, begun, false
}

// parse reads a file. It returns nil if that is no issue and does not look like an issue.
func (t *tracker) parse(name string, content []byte) *record {
	r := &record{name: name, issue: identity(strings.TrimSuffix(name, ".md"))}
	if len(bytes.TrimSpace(content)) == 0 { // another program may be writing it
		r = unusable(name, "the file is empty")
		r.nameless = true
		return r
	}
	front, begun, closed := split(content)
	if !begun {
		return misplaced(name, content)
	}
	f := fields{t: t, record: r, values: map[string]*yaml.Node{}}
	fault := f.read(content, front, closed)
	id := f.text("id")
	r.statusSeen = f.text("status")
	switch {
	case fault != nil && closed: // YAML has not read all of it
		lines := content[front.start:front.end]
		id = cmp.Or(id, firstValue(idLine(), lines))
		r.statusSeen = cmp.Or(r.statusSeen, firstValue(statusLine(), lines))
	case fault != nil: // half a file
		id = firstValue(idLine(), beginning(content[front.start:]))
		r.nameless = id == ""
	}
	if id != "" {
		r.issue = identity(id)
	}
	if fault == nil {
		r.fill(f, content, front.end)
		fault = r.requireTitleAndStatus(f)
	}
	if fault == nil {
		fault = f.requireDependencies()
	}
	if fault == nil {
		return r
	}
	r.fault = sync.OnceValue(func() string {
		line, message := fault()
		return fmt.Sprintf("%s:%d: %s", name, line, message)
	})
	return r
}

// misplaced returns the record of a file that is meant as an issue, although its front matter
// does not begin on line 1; nil for another file.
func misplaced(name string, content []byte) *record {
	why := ""
	rest := bytes.TrimLeft(content, " \t\r\n")
	front, _, closed := split(rest)
	lines := rest[front.start:front.end]
	isConflict := conflictAt(content) == 0
	switch {
	case isConflict:
		why = unresolved
		lines = nil // there may be two ids
	case len(rest) < len(content) && closed && statusLine().Match(lines):
		why = "the first line is empty, but the front matter has to begin there: remove that line"
	default:
		return nil
	}
	r := unusable(name, why)
	id := firstValue(idLine(), lines)
	if id != "" {
		r.issue = identity(id)
	}
	r.nameless = isConflict
	return r
}

// conflictAt returns where a conflict begins, as git writes it; -1 if there is none.
func conflictAt(content []byte) int {
	if !bytes.Contains(content, []byte("<<<<<<< ")) { // much faster than the pattern
		return -1
	}
	found := conflictMarks().FindIndex(content)
	if found == nil {
		return -1
	}
	return found[0]
}

var conflictMarks = text.Pattern(`(?ms)^<{7} .*?^={7}\r?$.*?^>{7} `)

const unresolved = "it contains a conflict of git: " + text.ResolveConflict

// beginning returns the whole lines before the first empty line of front matter without an
// end. A body may follow, in which a line such as "id: 12" means nothing.
func beginning(lines []byte) []byte {
	end := 0
	for line := range bytes.Lines(lines) {
		isWhole := bytes.HasSuffix(line, []byte("\n"))
		if !isWhole || len(bytes.TrimSpace(line)) == 0 {
			break
		}
		end += len(line)
	}
	return lines[:end]
}

// firstValue returns the value in the first line that a pattern finds; empty if it finds none.
func firstValue(pattern *regexp.Regexp, lines []byte) string {
	m := pattern.FindSubmatch(lines)
	if m == nil {
		return ""
	}
	return strings.Trim(string(m[1]), `'" `)
}

// fault finds the line and the reason for which a file is no issue.
type fault func() (line int, message string)

func faultAt(line int, format string, args ...any) fault {
	return func() (int, string) { return line, fmt.Sprintf(format, args...) }
}

// read reads the front matter. It returns nil if that is a map without repeated keys.
func (f fields) read(content []byte, front span, closed bool) fault {
	switch {
	case len(content) > maxFile:
		return faultAt(1, "the file is larger than 1 MiB")
	case !closed:
		return faultAt(1, "the front matter has no end: a line of ---")
	case front.end-front.start > maxFront:
		return faultAt(1, "the front matter is larger than 64 KiB")
	}
	conflict := conflictAt(content)
	if conflict >= 0 && conflict < front.end { // further down it is text
		return faultAt(1+bytes.Count(content[:conflict], []byte("\n")), unresolved)
	}
	yml := content[front.start:front.end]
	if !utf8.Valid(yml) {
		bad := front.start + bytes.IndexRune(yml, utf8.RuneError)
		line := 1 + bytes.Count(content[:bad], []byte("\n"))
		return faultAt(line, "the file is not UTF-8: save it as UTF-8")
	}
	doc, err := decode(yml)
	if err != nil {
		return func() (int, string) {
			line, message := text.YAMLFault(yml, err)
			if m := colonInValue().FindSubmatch(bytes.Split(yml, []byte("\n"))[line]); m != nil {
				message = fmt.Sprintf("put the %s in quotes, because it contains a colon", m[1])
			}
			return line + 2, message
		}
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return faultAt(root.Line+1, "the front matter must be a map of keys, such as title: …")
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name := root.Content[i]
		if f.values[name.Value] != nil {
			return faultAt(name.Line+1, "%s appears twice", name.Value)
		}
		f.values[name.Value] = root.Content[i+1]
	}
	return nil
}

// requireTitleAndStatus returns a fault if the title or the status of the issue is not set.
func (r *record) requireTitleAndStatus(f fields) fault {
	for _, required := range []struct{ key, value string }{
		{"title", r.issue.Title},
		{"status", r.issue.State},
	} {
		node := f.get(required.key)
		switch {
		case node != nil && node.Kind != yaml.ScalarNode:
			return faultAt(node.Line+1, "%s must be text, in quotes if it has brackets", required.key)
		case required.value == "" && node != nil:
			return faultAt(node.Line+1, "%s is empty", required.key)
		case required.value == "":
			return missing(required.key)
		}
	}
	return nil
}

// requireDependencies returns a fault if a dependency can't be read: without it the issue would start
// too early.
func (f fields) requireDependencies() fault {
	node := f.get("dependencies")
	if node == nil || node.Kind == yaml.ScalarNode {
		return nil
	}
	isID := func(item *yaml.Node) bool { return item.Kind == yaml.ScalarNode }
	for _, item := range node.Content {
		if node.Kind != yaml.SequenceNode || !isID(item) {
			return faultAt(item.Line+1, "dependencies must be a list of ids, such as [TASK-1, TASK-2]")
		}
	}
	return nil
}

// missing returns the fault of a key that is not set.
func missing(key string) fault {
	example := map[string]string{"status": "the name of its state, such as To Do", "title": "a line about the work"}[key]
	return faultAt(1, "%s is missing: write %s: and %s", key, key, example)
}

// colonInValue finds the key of a line whose plain value contains a colon and a blank.
var colonInValue = text.Pattern(`^(\w+):[ \t]+[^\s"'|>\[{].*:(?:[ \t]|$)`)

// idLine finds the id in front matter that cannot be read.
var idLine = text.Pattern(`(?m)^id:[ \t]*([^\s#].*?)[ \t]*(?:[ \t]#.*)?\r?$`)

// statusLine finds the status in front matter that cannot be read.
var statusLine = text.Pattern(`(?m)^(?:status|state):[ \t]*([^\s#].*?)[ \t]*(?:[ \t]#.*)?\r?$`)

// fill sets the fields from the front matter and the body. body is the offset of the last line
// of the front matter.
func (r *record) fill(f fields, content []byte, body int) {
	i := &r.issue
	i.Title = f.text("title")
	i.State = f.text("status")
	i.Priority = f.priority()
	i.CreatedAt = f.time("created_date")
	i.UpdatedAt = f.time("updated_date")
	i.Labels = text.Unique(text.Map(f.list("labels"), strings.ToLower))
	i.BlockedBy = []reconcile.BlockerRef{}
	r.dependencies = f.list("dependencies")
	f.warnOfKeys()
	r.assignees = text.Map(f.list("assignee"), bare)
	r.state = f.get("status")
	_, after, _ := bytes.Cut(content[body:], []byte("\n"))
	body = len(content) - len(after)
	section, rest := findComments(content, body)
	r.comments = parseComments(content, section, i.ID)
	if n := len(r.comments); n > 0 {
		i.LastCommentAt = &r.comments[n-1].at
	}
	rest = bytes.TrimSpace(marks().ReplaceAll(bytes.ReplaceAll(rest, []byte("\r\n"), []byte("\n")), nil))
	i.Description = text.OrNull(strings.ToValidUTF8(string(rest), "?"))
}

// marks are the lines by which Backlog.md finds the sections of a body.
var marks = text.Pattern(`<!-- (?:SECTION:\w+|AC|DOD):(?:BEGIN|END) -->\n?`)

// setDates sets UpdatedAt to the latest of the dates in the file and the time at which the
// file was written: people forget to change the date. That time is also the date of an issue
// that has none.
func (r *record) setDates(at time.Time) {
	at = at.UTC()
	if r.issue.CreatedAt == nil {
		r.issue.CreatedAt = new(at)
	}
	for _, t := range []*time.Time{r.issue.CreatedAt, r.issue.UpdatedAt} {
		if t != nil && t.After(at) {
			at = *t
		}
	}
	r.issue.UpdatedAt = &at
}

// locate returns where the value of a node of the front matter is; its end is 0 if the value
// is not plainly on a single line.
func locate(content []byte, node *yaml.Node) span {
	front, _, _ := split(content)
	at := front.start
	for range node.Line - 1 {
		at += lineBreak().FindIndex(content[at:])[1]
	}
	for range node.Column - 1 {
		_, size := utf8.DecodeRune(content[at:])
		at += size
	}
	rest := string(content[at:front.end])
	written := ""
	switch node.Style {
	case 0:
		written = node.Value
	case yaml.SingleQuotedStyle:
		written = "'" + strings.ReplaceAll(node.Value, "'", "''") + "'"
	case yaml.DoubleQuotedStyle:
		written = doubleQuoted().FindString(rest)
	default:
	}
	if written == "" || !strings.HasPrefix(rest, written) {
		return span{}
	}
	return span{at, at + len(written)}
}

// lineBreak is a line break of YAML.
var lineBreak = text.Pattern(`\r\n|[\n\r\x{85}\x{2028}\x{2029}]`)

var doubleQuoted = text.Pattern(`^"(?:[^"\\\n]|\\.)*"`)

// fields are the values of the front matter.
type fields struct {
	t      *tracker
	record *record
	values map[string]*yaml.Node
}

// remark notes, and warns, that something in a line of the file is not obeyed.
func (f fields) remark(node *yaml.Node, format string, args ...any) {
	said := fmt.Sprintf("%s:%d: %s", f.record.name, node.Line+1, fmt.Sprintf(format, args...))
	f.record.remarks = append(f.record.remarks, said)
	f.t.Warn(said)
}

// otherNames are keys that may be used instead of Backlog.md's.
var otherNames = map[string][]string{
	"status":       {"state"},
	"dependencies": {"blocked_by", "depends_on"},
	"assignee":     {"assignees"},
	"created_date": {"created_at"},
	"updated_date": {"updated_at"},
}

// keysRead are the keys of Backlog.md that are read here.
var keysRead = []string{
	"id", "title", "status", "priority", "created_date", "updated_date", "labels", "dependencies", "assignee",
}

// keysOfBacklog are the other keys of Backlog.md, which mean nothing here and are no misspelt ones.
var keysOfBacklog = []string{
	"reporter", "due_date", "milestone", "references", "documentation", "modified_files", "parent_task_id",
	"subtasks", "type", "project", "ordinal", "onStatusChange",
}

// isRead reports whether a key is read.
func isRead(name string) bool {
	isName := func(key string) bool { return key == name || slices.Contains(otherNames[key], name) }
	return slices.ContainsFunc(keysRead, isName)
}

// meantKey returns what is meant with a key that is not read: priority with Priority, and labels
// with label. It is empty if nothing is, or the key is read.
func meantKey(name string) string {
	if isRead(name) || slices.Contains(keysOfBacklog, name) {
		return ""
	}
	isLong := func(word string) bool { return len(word) > len("id") } // many short words are like it
	near := suggest.Nearest(name, slices.Concat(text.Filter(keysRead, isLong), keysOfBacklog))
	if slices.Contains(keysOfBacklog, near) {
		return ""
	}
	return near
}

// names returns the keys in the order of the file.
func (f fields) names() []string {
	byLine := func(a, b string) int { return cmp.Compare(f.values[a].Line, f.values[b].Line) }
	return slices.SortedFunc(maps.Keys(f.values), byLine)
}

// warnOfKeys warns of keys that are not read and mean one that is not there.
func (f fields) warnOfKeys() {
	for _, name := range f.names() {
		key := meantKey(name)
		if key != "" && f.get(key) == nil {
			f.remark(f.values[name], "%s is not read: write %s", name, key)
		}
	}
}

// get returns the value of a key; nil if there is none.
func (f fields) get(key string) *yaml.Node {
	for _, name := range append([]string{key}, otherNames[key]...) {
		node := f.values[name]
		if node != nil && node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		if node != nil && node.Tag != "!!null" {
			return node
		}
	}
	return nil
}

// text returns the value of a key that is a text; empty for another value.
func (f fields) text(key string) string {
	node := f.get(key)
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return strings.TrimSpace(node.Value)
}

// list returns the items of a list, or of a text with commas.
func (f fields) list(key string) (items []string) {
	node := f.get(key)
	switch {
	case node == nil:
	case node.Kind == yaml.ScalarNode:
		items = strings.Split(node.Value, ",")
	case node.Kind == yaml.SequenceNode:
		items = text.Map(node.Content, func(item *yaml.Node) string { return item.Value })
		if slices.ContainsFunc(node.Content, func(item *yaml.Node) bool { return item.Kind == yaml.MappingNode }) {
			f.ignored(key, node)
		}
	default:
		f.ignored(key, node)
	}
	return text.Unique(items)
}

// priorities are the words for priorities, of which 1 is the most urgent.
var priorities = map[string]int{
	"urgent":   1,
	"critical": 1,
	"highest":  1,
	"high":     2,
	"medium":   3,
	"normal":   3,
	"low":      4,
	"lowest":   4,
	"none":     0,
}

// priority returns the priority, a word or a number; nil if there is none.
func (f fields) priority() *int {
	word := f.text("priority")
	if n, known := priorities[strings.ToLower(word)]; known {
		return &n
	}
	n, err := strconv.Atoi(word)
	if err != nil {
		if node := f.get("priority"); node != nil && node.Value != "" {
			f.remark(node, "priority %q is ignored: write urgent, high, medium, low, none, "+
				"or a number, of which 1 is the most urgent", node.Value)
		}
		return nil
	}
	return &n
}

// time returns the time of a key; nil if there is none.
func (f fields) time(key string) *time.Time {
	word := f.text(key)
	at := text.Time(word)
	if at == nil && word != "" {
		f.remark(f.get(key), "%s %q is ignored: write year, month and day, such as 2026-03-01", key, word)
	}
	return at
}

// ignored warns about a value that is no list.
func (f fields) ignored(key string, node *yaml.Node) {
	if key == "dependencies" { // see requireDependencies
		return
	}
	f.remark(node, "%s cannot be read and is ignored: write a list, such as [a, b]", key)
}

// bare returns a user name without the @ before it.
func bare(name string) string { return strings.TrimPrefix(strings.TrimSpace(name), "@") }

// userLine is a line with names of users, which Backlog.md also reads without quotes.
var (
	userLine = text.Pattern(`(?m)^(?:assignees?|reporter):.*$`)
	userName = text.Pattern(`([\s\[,])(@[\w./-]+)`)
)

// decode parses front matter.
func decode(front []byte) (yaml.Node, error) {
	var doc yaml.Node
	err := yaml.Unmarshal(front, &doc)
	if err == nil || !userLine().Match(front) {
		return doc, err
	}
	quote := func(line []byte) []byte { return userName().ReplaceAll(line, []byte(`$1"$2"`)) }
	if yaml.Unmarshal(userLine().ReplaceAllFunc(front, quote), &doc) != nil {
		return doc, err // of the text as it was written
	}
	return doc, nil
}
