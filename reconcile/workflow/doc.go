// Package workflow reads WORKFLOW.md (specification 5, 6 and 12): it turns the front matter into a typed Config, and the body
// into a Prompt. It does not read the process's environment: variables, home and temporary directory come in as an
// Environment, so that a pass, a worker and a test see the values that they are given.
//
//	Read ─► Source ─► Parse ─► Config ─► Policy  (what the plan depends on)
//	                     └───► Prompt ─► Render  (what the agent is told)
//
// A key is one row of the table in keys.go, which drives parsing, defaults, validation, completion and documentation.
//
// # Decisions
//
// The front matter is read as a tree of YAML nodes, not decoded into structs. So every message names the key and the line in
// the file, digits in strings and unknown keys are treated as the specification wants, and all faults are reported at once.
//
// A single string in the place of a list of strings is an error, as in symphony's first implementation: "Todo, In Progress"
// taken as one state would silently match nothing.
//
// A null value is an absent key. tracker.api_key and tracker.assignee fall back to LINEAR_API_KEY and LINEAR_ASSIGNEE where
// the variable that they name is not set, and workspace.root falls back to its default. A path that contains such a variable
// among other text is an error, because half a path leads to the wrong directory.
//
// A literal api_key never leaves the file: Redacted has $SYMPHONY_LITERAL_API_KEY in its place, which Parse resolves like any
// other variable, without a fallback.
//
// The template engine is strict, but checks only what it renders. So ParsePrompt walks the whole template, too, and looks up
// every name in it: Check reports a misspelt name also in a branch that is not taken. No tag reads files (include, render).
package workflow
