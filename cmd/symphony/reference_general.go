package main

// What the manual says about no single command.

const manualIntroduction = `Symphony takes each issue of a Linear project through a coding agent, codex app-server, in a workspace of its
own, and hands it over to a person. It is no daemon: each pass, symphony tick, compares the tracker with a table of
claims and detached workers, does what is needed, and exits. Cron or a systemd timer runs passes. Everything that is to
be done is said in one file, WORKFLOW.md: settings in YAML on top, the agent's prompt below.`

const manualHabits = `Flags stand before or after the arguments. The workflow is named by -w, or as the last argument; else it is
$SYMPHONY_WORKFLOW, else ./WORKFLOW.md. On a terminal tables are padded and times relative, elsewhere fields are
separated by tabs and times are RFC 3339 in UTC; --json prints JSON. Errors go to stderr: a line with a code, what and
where, then a line with what to do.`

// meaning is a word and what it means.
type meaning struct{ word, text string }

func manualExitCodes() []meaning {
	return []meaning{
		{"0", "fine; also: another pass has the lock. A run that failed is no error of a pass"},
		{"1", "the pass or the command could not do something"},
		{"2", "usage"},
		{"3", "WORKFLOW.md or the configuration"},
		{"4", "the lock was not to be had in time"},
	}
}

func manualEnvironment() []meaning {
	return []meaning{
		{"LINEAR_API_KEY", "the tracker's key, unless tracker.api_key names another variable; also in the environment file"},
		{"LINEAR_ASSIGNEE", "the assignee, where tracker.assignee is absent"},
		{"SYMPHONY_MAX_AGENTS", "bounds the live runs of one codex home, over all projects"},
		{"SYMPHONY_WORKFLOW", "the workflow, where -w names none"},
		{"SYMPHONY_STATE_DIR", "the state directory, where --state-dir names none"},
		{"XDG_STATE_HOME, XDG_CONFIG_HOME", "where state and environment files lie, instead of ~/.local/state and ~/.config"},
		{"NO_COLOR", "no colours"},
	}
}

func manualFiles() []meaning {
	return []meaning{
		{"WORKFLOW.md", "settings and prompt of a project"},
		{"~/.config/symphony/PROJECT.env", "its environment file, mode 0600: lines of NAME=VALUE, read by every pass"},
		{"~/.local/state/symphony/PROJECT/", "its state: claims and runs in state.db, the logs of each run below runs/"},
		{"~/.local/state/symphony/accounts/", "what all projects of a codex home share"},
	}
}
