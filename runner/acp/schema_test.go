package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/wire"
)

// published is the published schema of the protocol, nil where SYMPHONY_ACP_SCHEMA does not name
// its file.
var published = sync.OnceValue(func() *jsonschema.Schema {
	path := os.Getenv("SYMPHONY_ACP_SCHEMA")
	if path == "" {
		return nil
	}
	var whole jsonschema.Schema
	if err := json.Unmarshal(test.Must(os.ReadFile(path)), &whole); err != nil {
		panic(err)
	}
	return &whole
})

// definitions are the names of methods in the schema, without their ends Request, Response and
// Notification. session/set_model is older than the schema.
var definitions = map[string]string{
	"initialize":                 "Initialize",
	"session/new":                "NewSession",
	"session/resume":             "ResumeSession",
	"session/load":               "LoadSession",
	"session/list":               "ListSessions",
	"session/prompt":             "Prompt",
	"session/cancel":             "Cancel",
	"session/update":             "Session",
	"session/set_mode":           "SetSessionMode",
	"session/set_config_option":  "SetSessionConfigOption",
	"session/request_permission": "RequestPermission",
	"session/set_model":          "",
	"_auth/status_update":        "", // Claude's own
}

// resolved are the parts of the schema that were used, by their names.
var resolved sync.Map

// validate checks a value against a definition of the published schema.
func validate(t *testing.T, definition string, raw json.RawMessage) {
	t.Helper()
	whole := published()
	if whole == nil || raw == nil {
		return
	}
	part, found := resolved.Load(definition)
	if !found {
		one := *whole
		one.AnyOf = nil
		one.Ref = "#/$defs/" + definition
		if one.Defs[definition] == nil {
			t.Errorf("the schema has no %s", definition)
			return
		}
		part = test.Must(one.Resolve(nil))
		resolved.Store(definition, part)
	}
	var value any
	test.OK(t, json.Unmarshal(raw, &value))
	if err := part.(*jsonschema.Resolved).Validate(value); err != nil {
		t.Errorf("%s: %v in %.300s", definition, err, raw)
	}
}

// checked checks the messages of one side of a conversation. methods are the requests of the
// other side, by their ids.
func checked(t *testing.T, m *wire.Message, methods map[string]string) {
	t.Helper()
	end := "Notification"
	method := m.Method
	body := m.Params
	switch {
	case m.Method == "" && m.HasID():
		end = "Response"
		method = methods[string(m.ID)]
		body = m.Result
	case m.HasID():
		end = "Request"
	}
	name, known := definitions[method]
	if !known && method != "" {
		t.Errorf("the method %s is not in the table", method)
	}
	if name != "" {
		validate(t, name+end, body)
	}
}

// messages are the messages in lines.
func messages(lines []byte) (all []*wire.Message) {
	for line := range bytes.Lines(lines) {
		if m := wire.ReadMessage(bytes.TrimSpace(line)); m.IsMessage() {
			all = append(all, m)
		}
	}
	return all
}

// checkConversation checks both sides of a conversation, given as their lines.
func checkConversation(t *testing.T, client, scripted []byte) {
	t.Helper()
	sides := [2][]byte{client, scripted}
	var asked [2]map[string]string
	for i, side := range sides {
		asked[i] = map[string]string{}
		for _, m := range messages(side) {
			if m.Method != "" && m.HasID() {
				asked[i][string(m.ID)] = m.Method
			}
		}
	}
	for i, side := range sides {
		for _, m := range messages(side) {
			checked(t, m, asked[1-i])
		}
	}
}
