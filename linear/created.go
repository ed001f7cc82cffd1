package linear

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/linear/internal/graphql"
	"github.com/symphony-cron/symphony/reconcile"
)

// creators names, for each mutation that creates something, the field of its payload with the new entity. Agents rarely
// ask for the new id. So the tool adds a question for it under idsAlias, and removes the reply before the agent
// reads the answer.
var creators = map[string]string{
	"commentCreate": "comment", "issueCreate": "issue", "issueBatchCreate": "issues", "issueRelationCreate": "issueRelation",
	"issueLabelCreate": "issueLabel", "documentCreate": "document", "projectCreate": "project",
	"projectMilestoneCreate": "projectMilestone", "projectUpdateCreate": "projectUpdate", "reactionCreate": "reaction",
	"attachmentCreate": "attachment", "attachmentLinkURL": "attachment", "attachmentLinkGitHubPR": "attachment",
	"attachmentLinkGitHubIssue": "attachment", "attachmentLinkGitLabMR": "attachment", "attachmentLinkSlack": "attachment",
	"attachmentLinkDiscord": "attachment", "attachmentLinkFront": "attachment", "attachmentLinkIntercom": "attachment",
	"attachmentLinkZendesk": "attachment", "attachmentLinkJiraIssue": "attachment", "attachmentLinkSalesforce": "attachment",
}

const idsAlias = "symphonyCreated"

// askForIDs adds to a mutation the question for what it creates. asked maps the keys of the answer that will hold it to
// the kind of entity. Nothing is added where the agent uses the alias itself.
func askForIDs(in input) (query string, asked map[string]string) {
	used := func(s graphql.Selection) bool { return s.Alias == idsAlias || s.Name == idsAlias }
	fields := slices.DeleteFunc(in.fields(), func(f graphql.Selection) bool {
		return f.Body == 0 || creators[f.Name] == "" || slices.ContainsFunc(in.doc.Fields(f.Selections), used)
	})
	slices.SortFunc(fields, func(a, b graphql.Selection) int { return b.Body - a.Body }) // from the end: insertions move what follows
	query, asked = in.query, map[string]string{}
	for _, f := range fields {
		query = query[:f.Body] + " " + idsAlias + ": " + creators[f.Name] + " { id }" + query[f.Body:]
		asked[f.Alias] = strings.TrimSuffix(creators[f.Name], "s")
	}
	return query, asked
}

// refusedAsInvalid reports an answer that says that the document does not fit Linear's schema. Nothing was executed
// then; errors with a path come from execution.
func refusedAsInvalid(body json.RawMessage) bool {
	env, empty := withoutData(body)
	if !empty || slices.ContainsFunc(env.Errors, func(e graphqlError) bool { return len(e.Path) > 0 }) {
		return false
	}
	return slices.ContainsFunc(env.Errors, func(e graphqlError) bool {
		return e.Extensions.Code == "GRAPHQL_VALIDATION_FAILED" || strings.Contains(e.Message, idsAlias)
	})
}

// errorsOfIDs returns the errors of an answer whose data is missing only because of what askForIDs added: the agent's
// own query would have been answered.
func errorsOfIDs(body json.RawMessage) []graphqlError {
	env, empty := withoutData(body)
	if !empty || slices.ContainsFunc(env.Errors, func(e graphqlError) bool { return !slices.Contains(e.Path, any(idsAlias)) }) {
		return nil
	}
	return env.Errors
}

func withoutData(body json.RawMessage) (env envelope[json.RawMessage], empty bool) {
	err := json.Unmarshal(body, &env)
	return env, err == nil && env.Data == nil
}

// takeIDs removes from an answer what askForIDs asked for. An answer without it stays byte for byte as it is.
func takeIDs(body json.RawMessage, asked map[string]string) (created []reconcile.Created, rest json.RawMessage) {
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
		for _, id := range idsIn(payload[idsAlias]) {
			created = append(created, reconcile.Created{Kind: asked[key], ID: id})
		}
		delete(payload, idsAlias)
		data[key], changed = encode(payload), true
	}
	if !changed {
		return nil, body
	}
	answer["data"] = encode(data)
	return created, encode(answer)
}

// encode writes an object of JSON values without changing these.
func encode(object map[string]json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		panic(err) // the values were decoded from JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// idsIn reads {"id": …} or a list of these; none for null, where nothing was created.
func idsIn(value json.RawMessage) (ids []string) {
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
	for _, e := range list {
		if e.ID != "" {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
