package github

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// toolCall is a call that the rules allow.
type toolCall struct {
	method string
	target target
	params url.Values
	body   json.RawMessage // nil for none
}

// readCall checks a call. The error is for the agent.
func (c *Client) readCall(issue reconcile.Issue, args json.RawMessage) (toolCall, error) {
	var written struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Params map[string]any  `json:"params"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(args, &written); err != nil {
		return toolCall{}, agenttool.Refusal(
			"invalid_input",
			"arguments must be an object with method and path, and params an object: "+err.Error(),
		)
	}
	method := strings.ToUpper(strings.TrimSpace(written.Method))
	if !slices.Contains(methods, method) {
		return toolCall{}, agenttool.Refusal("invalid_input", "method must be GET, POST, PATCH, PUT or DELETE")
	}
	params, err := agenttool.Query("params", written.Params)
	if err != nil {
		return toolCall{}, err
	}
	for name, values := range params { // GitHub expects a list as a single value with commas
		params.Set(name, strings.Join(values, ","))
	}
	to, err := c.target(issue, method, strings.TrimSpace(written.Path))
	if err != nil {
		return toolCall{}, err
	}
	in := toolCall{method: method, target: to, params: params}
	if method == http.MethodGet {
		return in, nil
	}
	if c.o.ReadOnly {
		return in, agenttool.ReadOnly(method + " " + to.path)
	}
	if len(params) > 0 { // GitHub's changes have none, and a text there would escape the marker
		return in, agenttool.Refusal(
			"invalid_input",
			"params are for GET: put what "+method+" changes into body",
		)
	}
	body := bytes.TrimSpace(written.Body)
	if len(body) > 0 && string(body) != "null" {
		in.body = body
	}
	if len(in.body) > transport.MaxToolBody {
		return in, agenttool.Refusal(
			"invalid_input",
			fmt.Sprintf("the body is longer than %d bytes", transport.MaxToolBody),
		)
	}
	if to.text == "" {
		return in, nil
	}
	in.body, err = markTexts(in.body, to.text)
	return in, err
}

// markTexts appends the marker to the texts of a comment or review, so that they are
// recognised as an agent's. field contains the text; a review contains further texts in a list
// of comments.
func markTexts(body json.RawMessage, field string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if body == nil {
		return nil, nil // GitHub reports a missing body, or the call is a DELETE
	}
	if json.Unmarshal(body, &object) != nil {
		return nil, agenttool.Refusal("invalid_input", "the body must be an object")
	}
	if err := markText(object, field); err != nil {
		return nil, err
	}
	if list := object["comments"]; list != nil {
		var comments []map[string]json.RawMessage
		if json.Unmarshal(list, &comments) != nil {
			return nil, agenttool.Refusal("invalid_input", "comments must be a list of objects")
		}
		for _, comment := range comments {
			if err := markText(comment, "body"); err != nil {
				return nil, err
			}
		}
		object["comments"] = text.JSON(comments)
	}
	var event string
	if json.Unmarshal(object["event"], &event) == nil && strings.EqualFold(event, "APPROVE") {
		return nil, agenttool.Refusal(
			"mutation_refused",
			"agents may not approve pull requests: use COMMENT or REQUEST_CHANGES",
		)
	}
	return text.JSON(object), nil
}

// markText appends the marker to the text in a field of an object.
func markText(object map[string]json.RawMessage, field string) error {
	if object[field] == nil {
		return nil
	}
	var written string
	if json.Unmarshal(object[field], &written) != nil {
		return agenttool.Refusal("invalid_input", field+" must be a text")
	}
	signed, err := agenttool.Sign(written)
	if err == nil && signed != "" {
		object[field] = text.JSON(signed)
	}
	return err
}
