// Package workflow reads WORKFLOW.md (specification 5, 6 and 12): it turns the front matter
// into a typed Config, and the body into a Prompt. It does not read the process's environment:
// variables, home and temporary directory are passed as an Environment, so that a pass, a
// worker and a test each choose their own.
//
//	Read ─► Source ─► Parse ─► Config ─► Policy  (the input of the planner)
//	                     └───► Prompt ─► Render  (the agent's instructions)
//
// A key is a row of the table in keys.go, which drives parsing, defaults, validation,
// completion and documentation.
//
// # Decisions
//
// The front matter is read as a tree of YAML nodes, not decoded into structs. So every message
// names the key and its line, digits in strings and unknown keys are treated as specified, and
// all faults are reported together.
//
// A string instead of a list of strings is an error, as in symphony's first implementation:
// "Todo, In Progress" read as a single state would silently match nothing.
//
// A null value counts as an absent key. If the variable that they name is not set,
// tracker.api_key and tracker.assignee fall back to LINEAR_API_KEY and LINEAR_ASSIGNEE, and
// workspace.root to its default. In any other path an unset variable is an error, because half
// a path leads to the wrong directory.
//
// A literal api_key never leaves the file: Redacted contains $SYMPHONY_LITERAL_API_KEY
// instead, which Parse resolves like any other variable, but without a fallback.
//
// The template engine is strict, but checks only the parts that it renders. So ParsePrompt
// also walks the whole template and looks up every name: Check then reports a misspelt name
// even in a branch that is not taken. The tags that read files (include, render) are disabled.
package workflow
