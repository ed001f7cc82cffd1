package reconcile

import "encoding/json"

// Mutation is what an agent changed in the tracker by its tool, or would have where that was not successful.
type Mutation struct {
	Fields    []string        `json:"fields"` // the root fields by the tracker's names
	Query     string          `json:"query"`  // as the agent sent it
	Variables json.RawMessage `json:"variables,omitempty"`
	Success   bool            `json:"success"`
	Created   []Created       `json:"created,omitempty"`
}

// Created is an entity of the tracker's that an agent made.
type Created struct {
	Kind string `json:"kind"` // the tracker's word: comment, issue, attachment, …
	ID   string `json:"id"`
}
