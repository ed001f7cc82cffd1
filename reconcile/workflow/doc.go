// Package workflow is the contract of WORKFLOW.md (specification 5, 6 and 12): it reads the file, turns the
// front matter into a typed Config, and the body into a Prompt. Nothing here reads the process's environment:
// variables, home and temporary directory come in as an Environment, so that a pass, a worker and a test see
// exactly what they are given.
//
//	Read ─► Source ─► Parse ─► Config ─► Policy  (what the plan depends on)
//	                     └───► Prompt ─► Render  (what the agent is told)
//
// # Decisions
//
// The front matter is walked as a tree of YAML nodes, not decoded into structs: every message can then name the
// key and the line in the file, digits in strings and unknown keys are treated as the specification wants, and
// all faults are reported at once.
//
// A single string where a list of strings is wanted is an error. Symphony's first implementation refuses it too,
// and "Todo, In Progress" taken as one state would silently match nothing.
//
// A null value is an absent key. tracker.api_key and tracker.assignee fall back to LINEAR_API_KEY and
// LINEAR_ASSIGNEE where the variable they name is not set, and workspace.root falls back to its default; a path
// that only contains such a variable is an error, because half a path leads to the wrong directory.
//
// A literal api_key never leaves the file: Redacted holds $SYMPHONY_LITERAL_API_KEY in its place, which Parse
// resolves like any other variable, without a fallback.
//
// The template engine runs strict. Because it checks only what it renders, Check walks the parsed tree with the
// shapes of the known variables, so that a misspelt name in a branch not taken is found too. Tags that read
// files (include, render) do not exist here.
package workflow
