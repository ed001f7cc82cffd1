package linear

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// creators names, for each mutation whose new entities are recorded, the field of its payload that
// contains the entity. Agents rarely select the new id. So the tool adds a selection of it
// under idsAlias, and removes that from the answer.
var creators = map[string]string{
	"commentCreate": "comment",
	"issueCreate":   "issue",
}

const idsAlias = "symphonyCreated"

// mutate sends a mutation, and finds the ids of the objects that it created.
func (t *tool) mutate(ctx context.Context, in input) (executed, error) {
	query, asked := askForIDs(in)
	done, err := t.client.execute(ctx, query, in.variables)
	if err != nil {
		return executed{}, t.client.Unsure(err)
	}
	if done.failed && len(asked) > 0 {
		errs := withoutData(done.body)
		switch {
		case slices.ContainsFunc(errs, ofDocument) && !slices.ContainsFunc(errs, ofExecution):
			// Linear executed nothing. The agent's original text is sent, so that an error is
			// about that.
			done, err = t.client.execute(ctx, in.query, in.variables)
			if err != nil {
				return executed{}, t.client.Unsure(err)
			}
		case len(errs) > 0 && !slices.ContainsFunc(errs, ofAgent):
			return executed{}, t.client.Unsure(t.client.Fail(
				"linear_unknown_payload",
				"Linear did not say what was created: "+transport.Messages(errs),
			))
		}
	}
	done.created, done.body = takeIDs(done.body, asked)
	return done, nil
}

// askForIDs adds to a mutation the selection of the ids that it creates. asked maps the keys
// of the answer that will contain them to the kind of entity. Nothing is added to a field in
// which the agent uses the alias itself.
func askForIDs(in input) (query string, asked map[string]string) {
	used := func(s *ast.Field) bool { return s.Alias == idsAlias || s.Name == idsAlias }
	query = in.query
	asked = map[string]string{}
	insertions := map[int]string{}
	for _, f := range in.fields(in.doc.Operations[0].SelectionSet) {
		creates := creators[f.Name]
		at := placeIn(query, f.SelectionSet)
		if creates == "" || at == 0 || slices.ContainsFunc(in.fields(f.SelectionSet), used) {
			continue
		}
		insertions[at] = " " + idsAlias + ": " + creates + " { id } "
		asked[f.Alias] = creates
	}
	// an insertion shifts the text after it
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(insertions))) {
		query = query[:at] + insertions[at] + query[at:]
	}
	return query, asked
}

// placeIn returns the offset in query at which a field can be added to a selection set; 0 if
// there is none. It is not in or behind a fragment with directives: with @include(if: false),
// the field would be left out, too.
func placeIn(query string, set ast.SelectionSet) int {
	for _, s := range set {
		at := 0
		switch s := s.(type) {
		case *ast.Field:
			return offset(query, s.Position, s.Alias)
		case *ast.InlineFragment:
			if len(s.Directives) == 0 {
				at = placeIn(query, s.SelectionSet)
			}
		case *ast.FragmentSpread:
			if len(s.Directives) == 0 {
				at = afterName(query, s)
			}
		}
		if at > 0 {
			return at
		}
	}
	return 0
}

// afterName returns the offset behind a fragment spread without directives; 0 if it is not
// known. Its position is where its name begins.
func afterName(query string, s *ast.FragmentSpread) int {
	at := offset(query, s.Position, s.Name)
	if at == 0 {
		return 0
	}
	return at + len(s.Name)
}

// offset converts a position, which counts runes, to bytes. It returns 0 if the word is not
// there, because the parser counted differently.
func offset(query string, p *ast.Position, word string) (at int) {
	for range p.Start {
		_, size := utf8.DecodeRuneInString(query[at:])
		at += size
	}
	if !strings.HasPrefix(query[at:], word) {
		return 0
	}
	return at
}

// withoutData returns the errors of an answer without data.
func withoutData(body json.RawMessage) []graphqlError {
	var env transport.Envelope[json.RawMessage]
	if json.Unmarshal(body, &env) != nil || env.Data != nil {
		return nil
	}
	return env.Errors
}

// ofDocument reports whether an error means that the document does not fit Linear's schema.
func ofDocument(e graphqlError) bool {
	return e.Extensions.Code == "GRAPHQL_VALIDATION_FAILED" || strings.Contains(e.Message, idsAlias)
}

// ofExecution reports whether an error occurred while the document was executed.
func ofExecution(e graphqlError) bool { return len(e.Path) > 0 }

// ofAgent reports whether an error is about the agent's selections, not about the selections
// that askForIDs added.
func ofAgent(e graphqlError) bool { return !slices.Contains(e.Path, any(idsAlias)) }

// takeIDs removes from an answer the ids that askForIDs added, and returns them. An answer
// without them stays unchanged, byte for byte.
func takeIDs(
	body json.RawMessage,
	asked map[string]string,
) (created []reconcile.Created, rest json.RawMessage) {
	var answer, data map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer["data"], &data) != nil {
		return nil, body
	}
	changed := false
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		var payload map[string]json.RawMessage
		if json.Unmarshal(data[key], &payload) != nil || payload[idsAlias] == nil {
			continue
		}
		var entity struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(payload[idsAlias], &entity) == nil && entity.ID != "" {
			created = append(created, reconcile.Created{Kind: asked[key], ID: entity.ID})
		}
		delete(payload, idsAlias)
		data[key] = text.JSON(payload)
		changed = true
	}
	if !changed {
		return nil, body
	}
	answer["data"] = text.JSON(data)
	return created, text.JSON(answer)
}
