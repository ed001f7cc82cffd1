package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
)

// params is the union of the members that the session reads of any message.
// Everything else stays in the raw line. Decoding is lenient: member types
// differ between methods and versions, and enum values grow with each release.
type params struct {
	Thread         idOf     `json:"thread"`
	ThreadIDNow    string   `json:"threadId"`
	ConversationID string   `json:"conversationId"` // a thread's id in requests of other versions
	Turn           wireTurn `json:"turn"`
	TurnIDNow      string   `json:"turnId"`

	Item       wireItem        `json:"item"`
	Delta      string          `json:"delta"`
	Error      *turnError      `json:"error"`
	WillRetry  bool            `json:"willRetry"`
	Status     json.RawMessage `json:"status"` // word or object
	Message    string          `json:"message"`
	Summary    string          `json:"summary"`
	Details    string          `json:"details"`
	Reason     string          `json:"reason"`
	Name       string          `json:"name"`
	RateLimits json.RawMessage `json:"rateLimits"`
	RequestID  json.RawMessage `json:"requestId"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
	ServerName string          `json:"serverName"`
	Msg        json.RawMessage `json:"msg"` // codex/event/*

	wireRequest
	wireNotice

	// Marks that other versions put on a turn that waits for a person.
	RequiresInput bool `json:"requiresInput"`
	NeedsInput    bool `json:"needsInput"`
	InputRequired bool `json:"inputRequired"`
}

// wireRequest are the members of requests for approval and of questions.
type wireRequest struct {
	ItemID      string          `json:"itemId"`
	CallID      string          `json:"callId"`
	Kind        string          `json:"kind"`
	Command     json.RawMessage `json:"command"` // string, or a list in old requests
	Cwd         string          `json:"cwd"`
	GrantRoot   string          `json:"grantRoot"`
	Permissions json.RawMessage `json:"permissions"`
	Additional  json.RawMessage `json:"additionalPermissions"` // that the command would get
	Network     *struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	} `json:"networkApprovalContext"`
	FileChanges json.RawMessage `json:"fileChanges"` // by path, in old requests
	Questions   []wireQuestion  `json:"questions"`
	Mode        string          `json:"mode"`
	URL         string          `json:"url"`
	Schema      json.RawMessage `json:"requestedSchema"`
	Meta        json.RawMessage `json:"_meta"`
}

// wireNotice are the members of notices that only people read.
type wireNotice struct {
	Diff        string       `json:"diff"`
	Explanation string       `json:"explanation"`
	Plan        []wireStep   `json:"plan"`
	Goal        wireGoal     `json:"goal"`
	FromModel   string       `json:"fromModel"`
	ToModel     string       `json:"toModel"`
	Provider    string       `json:"provider"`
	Path        string       `json:"path"`
	Changes     []wireChange `json:"changes"`
}

type idOf struct {
	ID string `json:"id"`
}

type wireStep struct {
	Step   string `json:"step"`
	Status string `json:"status"`
}

type wireGoal struct {
	Objective string `json:"objective"`
	Status    string `json:"status"`
}

type wireQuestion struct {
	ID       string `json:"id"`
	Header   string `json:"header"`
	Question string `json:"question"`
	IsOther  bool   `json:"isOther"`
	IsSecret bool   `json:"isSecret"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

type wireTurn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Items  []wireItem `json:"items"`
	Error  *turnError `json:"error"`
}

// turnError is the error of a turn and of an error notification; elsewhere it is a text alone.
type turnError struct {
	Message           string          `json:"message"`
	Info              json.RawMessage `json:"codexErrorInfo"`
	AdditionalDetails string          `json:"additionalDetails"`
}

// UnmarshalJSON also takes a text. Members of another type are left empty, as everywhere.
func (e *turnError) UnmarshalJSON(raw []byte) error {
	readText(raw, &e.Message)
	lenient(bytes.Clone(raw), e) // raw may not be kept
	return nil
}

type wireItem struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Status   string          `json:"status"`
	Command  string          `json:"command"`
	Cwd      string          `json:"cwd"`
	ExitCode *int            `json:"exitCode"`
	Changes  []wireChange    `json:"changes"`
	Tool     string          `json:"tool"`
	Server   string          `json:"server"`
	Query    string          `json:"query"`
	Success  *bool           `json:"success"`
	Summary  []string        `json:"summary"`
	Content  json.RawMessage `json:"content"`
	Error    *turnError      `json:"error"`
	Path     string          `json:"path"`
	Prompt   string          `json:"prompt"`
	Kind     string          `json:"kind"`
	Review   string          `json:"review"`
}

type wireChange struct {
	Path string   `json:"path"`
	Kind wireKind `json:"kind"`
	Diff string   `json:"diff"`
}

// wireKind is {"type":"update","move_path":null}; other versions had the word alone.
type wireKind struct {
	Type string `json:"type"`
	Move string `json:"move_path"`
}

func (k *wireKind) UnmarshalJSON(raw []byte) error {
	readText(raw, &k.Type)
	lenient(raw, k)
	return nil
}

// read decodes raw. A member of another type than expected is left empty and
// does not hinder the others; raw is valid JSON, as part of a decoded line.
func (p *params) read(raw json.RawMessage) {
	lenient(raw, p)
	p.Item.modern()
	for i := range p.Turn.Items {
		p.Turn.Items[i].modern()
	}
}

// modern spells an item's words as codex does today.
func (i *wireItem) modern() {
	i.Type, i.Status = camelWord(i.Type), camelWord(i.Status)
}

func (p *params) threadID() string { return cmp.Or(p.ThreadIDNow, p.Thread.ID, p.ConversationID) }

func (p *params) turnID() string { return cmp.Or(p.TurnIDNow, p.Turn.ID) }

// statusWord is params.status where it is a word.
func (p *params) statusWord() string {
	var word string
	if len(p.Status) == 0 || json.Unmarshal(p.Status, &word) != nil {
		return ""
	}
	return word
}
