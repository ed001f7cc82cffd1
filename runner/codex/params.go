package codex

import (
	"cmp"
	"encoding/json"
	"errors"
)

// params is the union of the members that the session reads of any message.
// Everything else stays in the raw line. Decoding is lenient: member types
// differ between methods and versions, and enum values grow with each release.
type params struct {
	Thread      idOf     `json:"thread"`
	ThreadIDNow string   `json:"threadId"`
	ThreadIDOld string   `json:"thread_id"`
	Turn        wireTurn `json:"turn"`
	TurnIDNow   string   `json:"turnId"`
	TurnIDOld   string   `json:"turn_id"`

	Item        wireItem        `json:"item"`
	Delta       string          `json:"delta"`
	Error       *turnError      `json:"error"`
	WillRetry   bool            `json:"willRetry"`
	Status      json.RawMessage `json:"status"` // word or object
	Message     string          `json:"message"`
	Summary     string          `json:"summary"`
	Reason      string          `json:"reason"`
	Name        string          `json:"name"`
	RateLimits  json.RawMessage `json:"rateLimits"`
	RequestID   json.RawMessage `json:"requestId"`
	Tool        string          `json:"tool"`
	Arguments   json.RawMessage `json:"arguments"`
	Command     json.RawMessage `json:"command"` // string, or a list in old requests
	Permissions json.RawMessage `json:"permissions"`
	Questions   []struct {
		Question string `json:"question"`
		Header   string `json:"header"`
	} `json:"questions"`
	ServerName string `json:"serverName"`

	// Marks that other versions put on a turn that waits for a person.
	RequiresInput bool `json:"requiresInput"`
	NeedsInput    bool `json:"needsInput"`
	InputRequired bool `json:"inputRequired"`
}

type idOf struct {
	ID string `json:"id"`
}

type wireTurn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Items  []wireItem `json:"items"`
	Error  *turnError `json:"error"`
}

// turnError is the error of a turn and of an error notification.
type turnError struct {
	Message           string          `json:"message"`
	Info              json.RawMessage `json:"codexErrorInfo"`
	AdditionalDetails string          `json:"additionalDetails"`
}

type wireItem struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Status   string          `json:"status"`
	Command  string          `json:"command"`
	ExitCode *int            `json:"exitCode"`
	Changes  []wireChange    `json:"changes"`
	Tool     string          `json:"tool"`
	Server   string          `json:"server"`
	Query    string          `json:"query"`
	Success  *bool           `json:"success"`
	Summary  []string        `json:"summary"`
	Content  json.RawMessage `json:"content"`
}

type wireChange struct {
	Path string `json:"path"`
}

// read decodes raw. A member of another type than expected is left empty and
// does not hinder the others; raw is valid JSON, as part of a decoded line.
func (p *params) read(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var wrongType *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, p); err != nil && !errors.As(err, &wrongType) {
		*p = params{}
	}
}

func (p *params) threadID() string { return cmp.Or(p.ThreadIDNow, p.Thread.ID, p.ThreadIDOld) }

func (p *params) turnID() string { return cmp.Or(p.TurnIDNow, p.Turn.ID, p.TurnIDOld) }

// statusWord is params.status where it is a word.
func (p *params) statusWord() string {
	var word string
	if len(p.Status) == 0 || json.Unmarshal(p.Status, &word) != nil {
		return ""
	}
	return word
}
