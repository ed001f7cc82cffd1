package linear

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"

	"github.com/symphony-cron/symphony/reconcile"
)

// creators are the mutations whose creations are worth knowing, and the field of their payload that has them. Agents
// ask for success only, more often than not; so the id is asked for under a name of our own, and taken out of the
// answer before the agent reads it.
var creators = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"commentCreate": "comment", "issueCreate": "issue", "issueBatchCreate": "issues", "issueRelationCreate": "issueRelation",
		"issueLabelCreate": "issueLabel", "documentCreate": "document", "projectCreate": "project",
		"projectMilestoneCreate": "projectMilestone", "projectUpdateCreate": "projectUpdate", "reactionCreate": "reaction",
		"attachmentCreate": "attachment", "attachmentLinkURL": "attachment", "attachmentLinkGitHubPR": "attachment",
		"attachmentLinkGitHubIssue": "attachment", "attachmentLinkGitLabMR": "attachment", "attachmentLinkSlack": "attachment",
		"attachmentLinkDiscord": "attachment", "attachmentLinkFront": "attachment", "attachmentLinkIntercom": "attachment",
		"attachmentLinkZendesk": "attachment", "attachmentLinkJiraIssue": "attachment", "attachmentLinkSalesforce": "attachment",
	}
})

// idsAlias is the name under which the ids are asked for.
const idsAlias = "symphonyCreated"

// askForIDs adds to a mutation the question for what it creates. asked are the keys of the answer that will hold it,
// with the kind of entity; none where the query stays as it is.
func askForIDs(in input) (query string, asked map[string]string) {
	if usesName(in.query, idsAlias) {
		return in.query, nil
	}
	type insertion struct {
		at   int
		text string
	}
	var add []insertion
	asked = map[string]string{}
	for _, f := range in.fields() {
		payload := creators()[f.Name]
		at, found := selectionOf(in.query, f)
		if payload == "" || !found {
			continue
		}
		add = append(add, insertion{at, " " + idsAlias + ": " + payload + " { id }"})
		asked[f.Alias] = strings.TrimSuffix(payload, "s")
	}
	slices.SortFunc(add, func(a, b insertion) int { return b.at - a.at }) // from the end, so that the places stay true
	query = in.query
	for _, a := range add {
		query = query[:a.at] + a.text + query[a.at:]
	}
	return query, asked
}

// usesName reports whether a document has a field, an alias or anything else of that name. In a text it means nothing.
func usesName(query, name string) bool {
	if !strings.Contains(query, name) {
		return false
	}
	tokens := lexer.New(&ast.Source{Input: query})
	for {
		token, err := tokens.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			return false
		}
		if token.Kind == lexer.Name && token.Value == name {
			return true
		}
	}
}

// selectionOf finds where the selection of a field begins: behind the first brace that stands in no argument.
func selectionOf(query string, f *ast.Field) (at int, ok bool) {
	if len(f.SelectionSet) == 0 {
		return 0, false
	}
	from := byteOf(query, f.Position.Start)
	tokens := lexer.New(&ast.Source{Input: query[from:]})
	for depth := 0; ; {
		token, err := tokens.ReadToken()
		switch {
		case err != nil || token.Kind == lexer.EOF:
			return 0, false
		case token.Kind == lexer.ParenL:
			depth++
		case token.Kind == lexer.ParenR:
			depth--
		case token.Kind == lexer.BraceL && depth == 0:
			return from + byteOf(query[from:], token.Pos.End), true
		}
	}
}

// byteOf turns a place that is counted in characters, as the parser does, into one in bytes.
func byteOf(text string, runes int) int {
	at := 0
	for range runes {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// refusedAsInvalid reports an answer that says that the document does not fit Linear's schema. An error with a path came up
// when the mutation was carried out.
func refusedAsInvalid(body json.RawMessage) bool {
	env, without := withoutData(body)
	if !without {
		return false
	}
	if slices.ContainsFunc(env.Errors, func(e graphqlError) bool { return len(e.Path) > 0 }) {
		return false
	}
	return slices.ContainsFunc(env.Errors, func(e graphqlError) bool {
		return e.Extensions.Code == "GRAPHQL_VALIDATION_FAILED" || strings.Contains(e.Message, idsAlias)
	})
}

// faultsOfIDs are the errors of an answer that has no data for nothing but what askForIDs has asked for: the agent's own
// question would have had some.
func faultsOfIDs(body json.RawMessage) []graphqlError {
	env, without := withoutData(body)
	if !without || slices.ContainsFunc(env.Errors, func(e graphqlError) bool { return !slices.Contains(e.Path, any(idsAlias)) }) {
		return nil
	}
	return env.Errors
}

func withoutData(body json.RawMessage) (envelope, bool) {
	var env envelope
	err := json.Unmarshal(body, &env)
	return env, err == nil && (len(env.Data) == 0 || bytes.Equal(env.Data, []byte("null")))
}

// takeIDs takes out of an answer what askForIDs has asked for.
func takeIDs(body json.RawMessage, asked map[string]string) (made []reconcile.Created, without json.RawMessage) {
	data := find(members(body, span{0, len(body)}), "data")
	var spans []span
	for _, field := range members(body, data.value) {
		ids := find(members(body, field.value), idsAlias)
		// The same name in escapes is nobody's question.
		if ids.name == "" || !bytes.HasPrefix(body[ids.name0:], []byte(`"`+idsAlias+`"`)) {
			continue
		}
		for _, id := range idsIn(body[ids.value.start:ids.value.end]) {
			made = append(made, reconcile.Created{Kind: asked[field.name], ID: id})
		}
		spans = append(spans, withComma(body, span{ids.name0, ids.value.end}))
	}
	for _, s := range slices.Backward(spans) {
		body = slices.Concat(body[:s.start], body[s.end:])
	}
	return made, body
}

// span is a part of a text.
type span struct{ start, end int }

// member is one of a JSON object; name0 is where it begins.
type member struct {
	name  string
	name0 int
	value span
}

func find(list []member, name string) member {
	if i := slices.IndexFunc(list, func(m member) bool { return m.name == name }); i >= 0 {
		return list[i]
	}
	return member{}
}

// members reads the object that stands there, without its order or its values being changed; none where it is no
// object.
func members(body json.RawMessage, at span) []member {
	text := body[at.start:at.end]
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []member
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil
		}
		named := at.start + int(d.InputOffset())
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil
		}
		end := at.start + int(d.InputOffset())
		list = append(list, member{name: name, name0: named - len(name) - len(`""`), value: span{end - len(raw), end}})
	}
	return list
}

// withComma takes in the comma that parts a member from its neighbour.
func withComma(body json.RawMessage, s span) span {
	const blanks = " \t\r\n"
	rest := bytes.TrimLeft(body[s.end:], blanks)
	if len(rest) > 0 && rest[0] == ',' {
		s.end = len(body) - len(bytes.TrimLeft(rest[1:], blanks))
		return s
	}
	if before := bytes.TrimRight(body[:s.start], blanks); bytes.HasSuffix(before, []byte(",")) {
		s.start = len(before) - 1
	}
	return s
}

// idsIn reads {"id": …} or a list of such; null where nothing was created.
func idsIn(value json.RawMessage) []string {
	type entity struct {
		ID string `json:"id"`
	}
	var list []entity
	if json.Unmarshal(value, &list) != nil {
		list = make([]entity, 1)
		if json.Unmarshal(value, &list[0]) != nil {
			return nil
		}
	}
	var ids []string
	for _, e := range list {
		if e.ID != "" {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
