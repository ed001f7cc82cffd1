package reconcile

import (
	"encoding/json"
	"slices"
)

// Mutation is what an agent changed in the tracker by its tool, or would have where that was not successful.
type Mutation struct {
	Fields    []string        `json:"fields"` // the root fields by the tracker's names
	Query     string          `json:"query"`  // as the agent sent it
	Variables json.RawMessage `json:"variables,omitempty"`
	Success   bool            `json:"success"`
	Created   []Created       `json:"created,omitempty"`
}

// Link is a place where an agent's work can be looked at.
type Link struct {
	Kind string `json:"kind"` // pull_request, attachment
	URL  string `json:"url"`
}

// mostLinks of a run or an issue are kept: who reads a list looks at the first ones.
const mostLinks = 20

// MergeLinks adds those that are not there yet.
func MergeLinks(links, more []Link) []Link {
	for _, l := range more {
		if len(links) < mostLinks && !slices.ContainsFunc(links, func(k Link) bool { return k.URL == l.URL }) {
			links = append(links, l)
		}
	}
	return links
}

// Created is an entity of the tracker's that an agent made.
type Created struct {
	Kind string `json:"kind"` // the tracker's word: comment, issue, attachment, …
	ID   string `json:"id"`
}
