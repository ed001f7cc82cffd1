package main

import (
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex"
)

// unsaid are the notifications that tell a person nothing: the state of the connection, what the next event
// says better, and rate limits, which ps has.
var unsaid = map[string]bool{
	"account/rateLimits/updated":      true,
	"remoteControl/status/changed":    true,
	"serverRequest/resolved":          true,
	"thread/started":                  true,
	"thread/status/changed":           true,
	"thread/name/updated":             true,
	"mcpServer/startupStatus/updated": true,
}

// humanize puts an event into one line for a person, or into none. The whole of it is in logs --raw.
func humanize(e runner.EventLine) (line string, ok bool) {
	text := e.Message
	if text == "" {
		text = e.Method
	}
	if e.Event != codex.EventNotification {
		name := strings.ReplaceAll(e.Event, "_", " ")
		if text == name || text == e.Method {
			return e.Event, true
		}
		return e.Event + ": " + text, true
	}
	if unsaid[e.Method] {
		return "", false
	}
	switch kind := itemKind(e); {
	case e.Method == "item/started" && (kind == "userMessage" || kind == "agentMessage" || kind == "reasoning"):
		return "", false // its end says what it is
	case kind == "agentMessage":
		return "agent: " + text, true
	}
	return text, true
}

// itemKind is the type of the item that an event is about, empty where it is about none or too long to be kept.
func itemKind(e runner.EventLine) string {
	var m struct {
		Params struct {
			Item struct {
				Type string `json:"type"`
			} `json:"item"`
		} `json:"params"`
	}
	if !strings.HasPrefix(e.Method, "item/") || json.Unmarshal(e.Payload, &m) != nil {
		return ""
	}
	return m.Params.Item.Type
}
