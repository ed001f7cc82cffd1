package workflow

import (
	"slices"
	"strings"
)

// otherKey says what symphony has for keys of other programs.
type otherKey struct {
	// words are names of keys, in lower case and separated by blanks. A name with a dot, such as
	// hooks.setup, means the key of that section only; other names mean a key of any section.
	words string
	// meant is a key of symphony, or else a sentence.
	meant string
}

// otherKeysFor returns what the rows for a name mean, in their order.
func otherKeysFor(name string) (meant []string) {
	for _, row := range otherKeys {
		if slices.Contains(strings.Fields(row.words), name) {
			meant = append(meant, row.meant)
		}
	}
	return meant
}

// Sentences that several rows have.
const (
	noTimeLimit = "no key limits the time of a run: agent.max_turns and agent.max_tokens end a long one, and " +
		"codex.stall_timeout_ms one without progress"
	noHours = "symphony has no hours of work: let cron run symphony resume and symphony pause at these times"
	ofEnv   = "variables of hooks and agents belong into the environment file, which symphony doctor names"
	tells   = "hooks.on_attention is a script that runs when you are needed"
	opens   = "repository.deliver: pull-request opens them, and merge.when says when they are merged"
	noAuth  = "the login of the agents is their own, such as codex login; the key of the tracker is tracker.api_key"
	inText  = "the prompt is the text below the front matter, and the agent also reads AGENTS.md of the repository"
	asksFor = "agent.on_approval: ask lets an agent ask you for what its sandbox forbids; docs/security.md says what " +
		"it may do"
	inCodex = "settings of the agent itself belong into its own files, such as config.toml in codex.home, or behind " +
		"the command that starts it"
	noBoxes = "symphony starts no containers by itself: agent.sandbox: bwrap confines agents, and with " +
		"worker.engine.kind: command each of them runs in a container; docs/hosts.md shows it"
	failing = "a failed run is tried again; after agent.max_failures the issue is held, and hooks.on_attention tells you"
	gitAuth = "git itself logs in, with an ssh key without a passphrase or a credential helper; symphony doctor tries it"
)

// otherKeys has what users of CI, cron, containers and other runners of agents write as a key of
// WORKFLOW.md. Names of several forms need one row only: max_concurrency, concurrencyLimit and
// concurrency-per-run are found as concurrency.
var otherKeys = []otherKey{
	// The first row for a key of the file's tracker and agent counts.
	{
		"timeout timeouts runtime duration time_limit time max_time deadline minutes seconds max_hours " +
			"max_minutes wall_time walltime lifetime max_duration",
		noTimeLimit,
	},
	{
		"idle_timeout stall_timeout stalled_after inactivity_timeout no_output_timeout stall " +
			"hang_timeout",
		"codex.stall_timeout_ms",
	},
	{
		"polling.cron polling.crontab polling.schedule polling.schedules polling.cron_expression polling.at " +
			"polling.timer polling.on schedule schedules cron crontab cron_expression",
		"polling.interval_ms is the time between passes of an installed timer and of symphony tick --loop; symphony " +
			"schedule install lets passes run by themselves",
	},
	{
		"hours working_hours work_hours business_hours office_hours " +
			"quiet_hours active_hours night nights at_night window time_window maintenance_window weekend " +
			"weekends days weekdays timezone time_zone tz start_time end_time start_at stop_at not_before",
		noHours,
	},
	{
		"interval poll poll_interval polling_interval every frequency period refresh refresh_interval " +
			"tick tick_interval loop_interval check_interval sync_interval polling.seconds polling.time " +
			"rate",
		"polling.interval_ms",
	},

	// how much at once, how often, how much in all
	{
		"parallel parallelism concurrency concurrent workers threads replicas instances slots agents " +
			"jobs max_agents num_agents agent_count max_jobs max_workers max_parallel parallel_agents " +
			"parallel_runs pool pool_size scale max_in_flight in_flight simultaneous wip wip_limit " +
			"max_concurrent",
		"agent.max_concurrent_agents",
	},
	{
		"rate_limit limits limit quota quotas resources_limit",
		"agent.max_concurrent_agents is how many agents work at once, agent.max_tokens how much one " +
			"issue may use, and agent.budget_per_day how much a day",
	},
	{
		"budget daily_budget budget_usd cost costs max_cost cost_limit spend spending spend_limit " +
			"max_spend usd dollars money max_usd price_limit agent.max_tokens_per_day agent.tokens_per_day " +
			"daily_tokens",
		"agent.budget_per_day",
	},
	{
		"budget_per_night budget_per_month budget_per_week budget_per_hour monthly_budget weekly_budget",
		"the only budget of a time is agent.budget_per_day",
	},
	{
		"budget_per_issue budget_per_run issue_budget max_budget_per_issue max_cost_per_issue agent.budget_per_issue " +
			"agent.budget_per_run agent.issue_budget",
		"agent.max_tokens",
	},
	{
		"token_limit token_budget tokens max_output_tokens context_limit tokens_per_issue " +
			"max_total_tokens",
		"agent.max_tokens",
	},
	{
		"turns max_steps steps_limit max_iterations iterations max_rounds iteration_limit loops " +
			"max_loops",
		"agent.max_turns",
	},
	{"verify.retries verify.retry verify.attempts verify.max_attempts verify.max_retries verify.tries", "verify.rounds"},
	{
		"verify.on_failure verify.on_error verify.allow_failure verify.required verify.blocking verify.fail",
		"if it fails, the agent gets its output and goes on, as often as verify.rounds says; nothing is handed over " +
			"before it succeeds",
	},
	{"feedback.retries feedback.attempts", "feedback.rounds"},
	{
		"retries retry attempts max_attempts max_retries retry_limit retry_count tries max_tries " +
			"max_errors error_limit",
		"agent.max_failures",
	},
	{
		"backoff retry_delay retry_interval retry_backoff max_backoff backoff_limit delay cooldown " +
			"retry_after retry_wait",
		"agent.max_retry_backoff_ms",
	},

	// the agent
	{
		"agent.name agent.type agent.provider agent.cli agent.tool agent.runner agent.engine " +
			"agent.backend provider backend llm runtime_agent",
		"agent.kind",
	},
	{"models agent.llm model_name default_model codex.llm", "codex.model"},
	{"models agent.llm model_name default_model", "agent.model"},
	{"reasoning reasoning_effort thinking model_reasoning_effort thinking_budget effort_level", "codex.effort"},
	{"reasoning reasoning_effort thinking model_reasoning_effort thinking_budget effort_level", "agent.effort"},
	{
		"codex.path codex.bin codex.binary codex.executable codex.exec codex.cmd codex_command " +
			"codex_path",
		"codex.command",
	},
	{"agent.path agent.bin agent.binary agent.executable agent.exec agent.cmd agent.run", "codex.command"},
	{"agent.path agent.bin agent.binary agent.executable agent.exec agent.cmd agent.run", "agent.command"},
	{"agent.home agent.config_dir agent.codex_home codex_home codex.codex_home codex.config_dir", "codex.home"},
	{
		"codex.sandbox codex.sandbox_mode sandbox_mode",
		"codex.turn_sandbox_policy: {type: readOnly} or {type: dangerFullAccess} changes the sandbox of codex, which is " +
			"workspaceWrite otherwise",
	},
	{"sandbox isolation sandboxed jail", "agent.sandbox"},
	{
		"read_only readonly agent.review agent.reviewer reviews_only no_write",
		"symphony init --example review -o REVIEW.md writes a workflow whose agents review and can change nothing",
	},
	{"approval approvals approval_policy ask_for_approval approval_mode", "codex.approval_policy"},
	{
		"approval approvals approval_policy ask_for_approval approval_mode permissions permission " +
			"permission_mode agent.mode mode yolo full_auto auto_approve dangerously_skip_permissions " +
			"dangerously_bypass_approvals_and_sandbox skip_permissions allow_list allowed_commands " +
			"denied_commands disallowed_tools allowed_tools tools",
		asksFor,
	},
	{
		"profile agent.config config agent.config_file codex.config codex.config_file codex.args codex.flags " +
			"codex.options codex.settings temperature top_p seed context_window verbosity personality web_search search_tool",
		inCodex,
	},
	{
		"agent.args agent.flags agent.options agent.extra_args extra_args agent.arguments",
		"agent.command is the whole command, with its arguments; for codex it is codex.command",
	},
	{
		"mcp mcp_servers mcpservers mcp_server plugins extensions skills",
		"codex.inherit: true gives agents the MCP servers and rules of codex.home",
	},
	{
		"prompt prompts system_prompt instructions instruction system_message prompt_file " +
			"prompt_template template rules guidelines context context_files persona role prompt_path",
		inText,
	},
	{
		"network_access internet internet_access allow_network network_mode allowed_hosts " +
			"allowed_domains allow_hosts hosts_allow domains allowlist whitelist egress firewall",
		"agent.network",
	},
	{"memory mem ram memory_limit mem_limit max_memory max_memory_mb memory_mb max_ram", "agent.max_memory_bytes"},
	{"pids_limit processes max_procs ulimit max_threads", "agent.max_processes"},
	{
		"cpu cpus cores gpu gpus resources requests nice cpu_limit",
		"no key limits processors; with worker.engine.kind: slurm worker.engine.args has options such " +
			"as --cpus-per-task",
	},
	{
		"writable writable_paths allow_write writable_dirs write_paths extra_dirs add_dir " +
			"additional_directories mounts",
		"agent.writable_roots",
	},
	{"agent.questions agent.ask_user agent.ask questions human_in_the_loop interactive", "agent.on_question"},
	{"answer_timeout agent.wait_for_answer agent.question_timeout", "agent.answer_timeout_ms"},
	{"resume agent.continue agent.session resume_session continue_session keep_context", "agent.resume_thread"},
	{"pricing rates price model_prices", "agent.prices"},
	{"fallback_model fallbacks failover fallback_agent fallback_agents fallback_kind secondary", "agent.fallback"},
	{"agent.labels agent.label_models per_label overrides model_by_label", "agent.by_label"},
	{
		"tracker.username tracker.user tracker.email tracker.mail tracker.login tracker.account",
		"tracker.provider.email",
	},
	{
		"tracker.username tracker.user tracker.login tracker.email tracker.mail tracker.account tracker.auth " +
			"tracker.credentials",
		"tracker.api_key alone says who symphony is in the tracker",
	},
	{
		"tracker.timeout tracker.timeout_ms tracker.retries tracker.retry",
		"nothing is to be set: what the tracker does not answer, a later pass asks again",
	},
	{
		"agent.token agent.api_key agent.auth agent.login agent.key_file codex.token codex.api_key " +
			"codex.auth codex.login api_keys openai_api_key anthropic_api_key credentials auth login " +
			"username password",
		noAuth,
	},
	{
		"token access_token api_token",
		"the key of the tracker is tracker.api_key, the token that opens pull requests repository.token; both name " +
			"a variable of the environment file",
	},
	{
		"secrets secret secret_env env_secrets pass_secrets",
		"values belong into the environment file, which symphony doctor names; agent.pass_env names " +
			"those that agents get although they are called TOKEN or KEY",
	},
	{
		"codex.env env environment envs variables vars env_file envfile dotenv env_vars " +
			"environment_file",
		ofEnv,
	},

	// what runs, and when
	{
		"verify.script verify.commands verify.run verify.cmd verify.steps verify.test verify.tests " +
			"verify.shell verify.checks",
		"verify.command",
	},
	{
		"verify.dir verify.cwd verify.directory verify.working_directory verify.workdir verify.path " +
			"verify.root working_directory",
		"it runs in the root of a checkout: begin the command with cd DIR &&",
	},
	{"verify.enabled verify.enable verify.active verify.when verify.on", "verify.command alone switches it on"},
	{
		"test tests lint build ci check quality_gate gate gates validation test_command build_command " +
			"lint_command verify_command before_push pre_push pre_commit before_deliver before_commit " +
			"before_handoff acceptance verification",
		"verify.command",
	},
	{
		"hooks.before_create hooks.pre_create",
		"before a workspace is created there is none to run in: hooks.after_create runs in the new one",
	},
	{
		"hooks.setup hooks.prepare hooks.init hooks.on_create hooks.post_create hooks.after_clone " +
			"hooks.install hooks.create setup install prepare bootstrap setup_script setup_command " +
			"before_script init post_create_command dependencies_command",
		"hooks.after_create",
	},
	{
		"hooks.pre_run hooks.on_start hooks.before_start hooks.before_agent hooks.before hooks.pre " +
			"hooks.start before_run pre_run hooks.run hooks.before_turn hooks.on_run",
		"hooks.before_run",
	},
	{
		"hooks.post_run hooks.on_finish hooks.on_end hooks.after_agent hooks.after hooks.post " +
			"hooks.finish hooks.after_turn hooks.after_deliver hooks.after_push post_run after_script " +
			"after_run",
		"hooks.after_run",
	},
	{
		"hooks.pre_remove hooks.cleanup hooks.teardown hooks.on_remove hooks.before_delete " +
			"hooks.after_remove hooks.post_remove hooks.destroy teardown",
		"hooks.before_remove",
	},
	{
		"hooks.after_handoff hooks.on_handoff hooks.post_handoff hooks.on_question hooks.on_hold hooks.on_done " +
			"hooks.on_failure hooks.on_success hooks.notify",
		"hooks.on_attention",
	},
	{
		"hooks.after_merge hooks.on_merge hooks.post_merge",
		"symphony runs nothing after a merge: let the CI of the base branch do it",
	},
	{
		"notifications notification notify slack webhook webhooks email emails mail discord " +
			"teams_webhook telegram sms pager pagerduty alert alerts alerting on_failure on_success " +
			"on_error on_complete on_finish on_done on_blocked on_question on_handoff on_hold on_event " +
			"on_attention",
		tells,
	},
	{
		"steps step script scripts run cmd exec entrypoint commands tasks task workflow workflows " +
			"pipeline stages stage actions",
		"the prompt below the front matter says what an agent does; hooks are scripts around its runs, " +
			"and verify.command checks its work",
	},
	{
		"command args",
		"codex.command starts the agent, verify.command checks its work, and hooks are scripts around " +
			"its runs",
	},
	{
		"on trigger triggers event events when if only except rules_if condition",
		"agents start for issues in one of tracker.active_states with all of tracker.required_labels; " +
			"symphony schedule install lets them start by themselves",
	},
	{
		"needs depends_on dependencies depends blocked_by after",
		"which issue waits for which is said in the tracker, at the issues",
	},
	{
		"priority priorities order order_by sort sort_by sorting",
		"agents start with the issues of the highest priority, and then with the oldest; the priority " +
			"is set in the tracker",
	},
	{"matrix strategy", "agent.by_label chooses another agent, model or effort for issues with a label"},
	{
		"continue_on_error allow_failure fail_fast on_failure_state handoff.failed_state " +
			"handoff.failure_state handoff.error_state",
		failing,
	},
	{
		"agent.enabled agent.enable agent.active codex.enabled codex.enable codex.active",
		"agent.kind chooses the agent; symphony pause and symphony resume switch the work off and on",
	},
	{
		"workspace.enabled workspace.enable workspace.active",
		"each issue has a clone of its own below workspace.root",
	},
	{
		"repository.enabled repository.enable repository.active",
		"repository.url switches it on; with repository.deliver: none nothing is pushed",
	},
	{
		"handoff.enabled handoff.enable handoff.on handoff.active",
		"handoff.state switches it on: it is the state of an issue that waits for your review",
	},
	{
		"feedback.enabled feedback.enable feedback.on feedback.active",
		"feedback.state switches it on: it is the state to which an issue with a review goes back",
	},
	{
		"monitor.enabled monitor.enable monitor.on monitor.active",
		"monitor.ping_url switches it on",
	},
	{
		"hooks.enabled hooks.enable hooks.active",
		"a hook runs if it is there, such as hooks.after_create; hooks has no switch",
	},
	{
		"worker.enabled worker.enable worker.on worker.active",
		"worker.ssh_hosts and worker.engine.kind switch it on",
	},
	{"worker.engine.enabled worker.engine.enable", "worker.engine.kind switches it on"},
	{
		"restart restart_policy autostart enabled disabled pause paused active daemon",
		"symphony pause and symphony resume switch the work off and on; symphony schedule install lets " +
			"it run by itself",
	},
	{
		"dry_run dryrun simulate",
		"symphony tick --dry-run says what a pass would do, and symphony show --prompt ISSUE what an agent " +
			"gets",
	},

	// the repository and its results
	{"repository.default_branch", "repository.base"},
	{"repository.api_url repository.endpoint repository.base_url repository.forge_url", "repository.api"},
	{
		"merge.checks merge.ci merge.require_checks merge.required_checks merge.status_checks merge.tests",
		"merge.when: green merges once the checks of the forge are green",
	},
	{
		"base_branch default_branch main_branch target_branch target trunk main base ref source_branch " +
			"checkout repository.default repository.main repository.branch_from merge.base merge.target " +
			"merge.into",
		"repository.base",
	},
	{
		"branch branches",
		"repository.base is the branch on which the work is based, repository.branch names the branch " +
			"of an issue",
	},
	{
		"branch_prefix branch_name branch_template branch_format branch_pattern prefix branch_naming",
		"repository.branch",
	},
	{
		"remote origin repo repos git git_url repo_url clone_url clone repository_url remote_url " +
			"repository.path repository.dir repository.location repository.address repository.name " +
			"repository.repo repository.owner repository.remote repository.origin",
		"repository.url",
	},
	{
		"repository.provider repository.type repository.host repository.service repository.kind " +
			"repository.platform platform forge",
		"repository.forge",
	},
	{
		"repository.push push repository.mode repository.delivery deliver delivery repository.output",
		"repository.deliver",
	},
	{
		"repository.pr repository.pull_request repository.pull_requests repository.merge_request " +
			"repository.merge_requests repository.create_pr repository.open_pr " +
			"repository.create_pull_request repository.open_pull_request repository.auto_pr repository.mr",
		"write repository.deliver: pull-request, which is the word for merge requests, too",
	},
	{
		"pr prs pull_request pull_requests merge_request merge_requests mr create_pr open_pr auto_pr " +
			"create_pull_request",
		opens,
	},
	{
		"draft drafts draft_pr is_draft",
		"symphony opens no drafts: a pull request is opened with the work of an agent in it",
	},
	{
		"repository.title repository.body repository.template repository.description pr_title pr_body pr_template " +
			"pull_request_template title body pull_request_title",
		"a pull request has the title of its issue, and the text that the agent wrote when it handed " +
			"over",
	},
	{
		"commit_message commit_messages commit commits commit_template commit_format " +
			"conventional_commits commit_style commit_prefix",
		"agents write the messages of their commits: say in the prompt how",
	},
	{
		"repository.author git_author git_user committer repository.user commit_author author_name",
		"repository.git_name",
	},
	{"author_email git_author_email user_email repository.email repository.mail", "repository.git_email"},
	{"signing gpg gpg_sign sign_commits signed gpg_key signing_key signoff", "repository.sign"},
	{
		"depth shallow fetch_depth clone_depth sparse sparse_checkout single_branch filter_blobs",
		"symphony clones the whole history once, and each workspace gets it from there",
	},
	{"lfs git_lfs", "files of Git LFS need no key, only git-lfs"},
	{
		"ssh_key deploy_key private_key repository.key repository.username repository.password repository.credentials " +
			"repository.ssh repository.auth",
		gitAuth,
	},
	{
		"repository.api_key repository.pat gh_token",
		"repository.token",
	},
	{"recursive submodule", "repository.submodules"},
	{
		"auto_merge automerge merge.auto merge.enabled merge.enable merge.automatic merge.on merge.if merge.after",
		"merge.when",
	},
	{"squash merge_method merge_strategy merge.strategy merge.type merge.how rebase squash_merge", "merge.method"},
	{
		"merge.state merge.merged_state merge.done_state",
		"merge.when says when it is merged, and feedback.merged_state to which state its issue moves " +
			"then",
	},
	{
		"merge.approvals merge.required_approvals merge.reviewers approvals_required required_approvals " +
			"required_reviews",
		"with merge.when: approved one reviewer is enough; the forge can ask for more, and symphony " +
			"then waits",
	},
	{
		"delete_branch remove_branch delete_source_branch delete_branch_on_merge cleanup_branches " +
			"prune_branches",
		"symphony deletes no branch on the remote: let the forge delete those of merged pull requests",
	},
	{
		"repository.reviewers pr_reviewers request_review request_reviewers codeowners reviewer " +
			"handoff.reviewers handoff.reviewer reviewers_to_request",
		"symphony asks no one for a review: on the forge CODEOWNERS does; feedback.reviewers names " +
			"whose reviews count",
	},
	{
		"repository.assignees repository.assignee handoff.assignee handoff.assign assign_to " +
			"handoff.user",
		"symphony assigns no one: the tracker's own rules may do so when an issue enters handoff.state",
	},
	{
		"repository.labels pr_labels pull_request_labels handoff.label handoff.labels add_labels",
		"symphony sets no labels: agents may do so with the tool of the tracker, if the prompt says so",
	},
	{
		"paths paths_ignore path_filter include_paths exclude_paths ignore ignored_paths only_paths " +
			"files globs glob protected_paths forbidden_paths subdirectory subdir monorepo " +
			"working_dir_in_repo",
		"agents get the whole repository: say in the prompt which folders are theirs",
	},

	// the states of issues
	{
		"tracker.review_state tracker.handoff_state tracker.human_review_state handoff.review_state " +
			"handoff.success_state handoff.done_state handoff.to handoff.target " +
			"handoff.status handoff.next_state handoff.done handoff.review review_state done_state " +
			"success_state human_review_state handoff.column handoff.state_name",
		"handoff.state",
	},
	{
		"handoff.blocked handoff.needs_input handoff.waiting_state handoff.needs_info " +
			"handoff.question_state blocked_state handoff.blocked_status",
		"handoff.blocked_state",
	},
	{
		"handoff.merged handoff.merged_state handoff.after_merge feedback.done_state " +
			"feedback.merge_state feedback.merged",
		"feedback.merged_state",
	},
	{
		"in_progress_state start_state running_state working_state handoff.start_state " +
			"handoff.in_progress handoff.in_progress_state claim_state tracker.in_progress_state " +
			"tracker.in_progress tracker.running_state",
		"symphony moves an issue only when it is handed over: the agent moves it before, if the prompt " +
			"says so",
	},
	{
		"handoff.comment handoff.message comment comments comment_template tracker.comment_on_start " +
			"tracker.comment_on_finish tracker.add_comments comment_on_start",
		"agents comment with the tool of the tracker, if the prompt says so; tracker.explain_holds lets " +
			"symphony explain holds",
	},
	{"feedback.ci feedback.tests feedback.builds", "feedback.checks"},
	{"feedback.comments feedback.review", "feedback.reviews"},
	{"feedback.max_rounds feedback.limit", "feedback.rounds"},
	{"feedback.users feedback.trusted feedback.people", "feedback.reviewers"},
	{"tracker.type tracker.name tracker.system tracker.service tracker.backend issue_tracker", "tracker.kind"},
	{
		"tracker.token tracker.key tracker.api_token tracker.pat tracker.password tracker.secret " +
			"tracker.access_token tracker.apikey linear_api_key",
		"tracker.api_key",
	},
	{
		"tracker.url tracker.host tracker.base_url tracker.server tracker.site tracker.domain " +
			"tracker.api_url tracker.api tracker.uri",
		"tracker.endpoint",
	},
	{
		"tracker.folder tracker.dir tracker.directory tracker.location tracker.path tracker.issues " +
			"tracker.file tracker.files tracker.provider.folder tracker.provider.dir " +
			"tracker.provider.directory issues_dir issues",
		"tracker.provider.path",
	},
	{"tracker.project tracker.project_id tracker.project_path", "tracker.provider.project_path"},
	{
		"tracker.repository tracker.repo tracker.owner tracker.project tracker.name_with_owner " +
			"tracker.slug",
		"tracker.provider.repo",
	},
	{"tracker.project tracker.project_id tracker.slug", "tracker.project_slug"},
	{"tracker.project tracker.project_key tracker.jql", "tracker.provider.jql"},
	{
		"tracker.done_states tracker.closed_states tracker.final_states tracker.end_states " +
			"tracker.completed_states tracker.done_state tracker.closed_state tracker.final_state " +
			"tracker.end_state tracker.done tracker.closed done_states",
		"tracker.terminal_states",
	},
	{"tracker.admins tracker.users tracker.owners tracker.allowed_users tracker.maintainers", "tracker.operators"},
	{
		"tracker.workspace tracker.organization tracker.org tracker.account tracker.provider.workspace " +
			"tracker.provider.organization",
		"the key of the tracker belongs to one workspace or account: leave it out",
	},
	{
		"tracker.provider.board tracker.board tracker.provider.project_url tracker.provider.project_number",
		"tracker.provider.project",
	},
	{
		"tracker.include_prs tracker.include_pull_requests tracker.provider.include_prs " +
			"tracker.provider.include_pull_requests",
		"pull requests are no issues: no agent starts on one",
	},
	{
		"tracker.app_id tracker.private_key tracker.installation_id tracker.client_id tracker.client_secret " +
			"tracker.provider.app_id tracker.provider.private_key tracker.provider.installation_id " +
			"tracker.provider.client_id tracker.provider.client_secret",
		"symphony logs in at the tracker with a token, in tracker.api_key",
	},
	{
		"tracker.api_key_file tracker.token_file tracker.key_file tracker.provider.token_file",
		"the key belongs into the environment file, which symphony doctor names",
	},
	{
		"tracker.webhook tracker.webhooks tracker.webhook_secret tracker.webhook_url tracker.provider.webhook_secret",
		"symphony takes no webhooks: each pass asks the tracker, and symphony schedule install sets up passes",
	},
	{"tracker.branch tracker.provider.branch", "repository.base"},
	{"tracker.command tracker.program tracker.script tracker.cmd tracker.provider.program", "tracker.provider.command"},
	{
		"tracker.close_on_merge tracker.auto_close tracker.close_issues close_issue_on_merge merge.close_issue " +
			"close_on_merge",
		"feedback.merged_state",
	},
	{"tracker.provider.project_gid", "examples/trackers/asana.py reads it from ASANA_PROJECT_GID"},
	{"tracker.readonly tracker.read_only tracker.write tracker.scope", "tracker.tool_scope"},

	// where files are, and who looks
	{
		"workspace.copy workspace.files workspace.include workspace.link workspace.links workspace.symlinks copy_files " +
			"files_to_copy copy_env",
		"hooks.after_create is a script that runs once in each new workspace: let it copy what git does not have",
	},
	{
		"workspace.size workspace.max_size workspace.quota workspace.limit workspace.max",
		"nothing limits the size of a workspace; workspace.min_free_bytes lets no run start while the disk has less free",
	},
	{
		"workdir workspace_dir work_dir workspaces worktree worktrees worktree_dir workspace_root " +
			"working_dir cwd root workspace.dir workspace.path workspace.directory workspace.base " +
			"workspace.location workspace.folder",
		"workspace.root",
	},
	{
		"workspace.strategy workspace.mode workspace.type workspace.worktree workspace.clone " +
			"use_worktrees",
		"each issue has a clone of its own below workspace.root",
	},
	{
		"workspace.keep workspace.retention workspace.ttl workspace.expire workspace.keep_days " +
			"retention retention_days keep keep_days trash trash_days expire ttl max_age " +
			"workspace.cleanup_after",
		"workspace.keep_removed_ms",
	},
	{
		"workspace.cleanup cleanup auto_cleanup clean gc prune",
		"the workspace of a finished issue is removed by itself; workspace.keep_removed_ms is how long " +
			"it stays in the trash",
	},
	{"disk disk_limit min_disk min_free_disk workspace.min_free disk_space", "workspace.min_free_bytes"},
	{
		"data_dir state_dir db database storage datadir state_directory persistence db_path history",
		"the state directory has the records: --state-dir or SYMPHONY_STATE_DIR chooses it",
	},
	{
		"log_level loglevel logging log logs log_file log_dir verbose debug quiet trace output " +
			"log_format",
		"there is nothing to set: symphony logs ISSUE shows everything that a run did, and symphony " +
			"tick --json what a pass did",
	},
	{
		"monitor.port monitor.host monitor.listen monitor.address monitor.endpoint",
		"symphony serve has metrics at /metrics, at server.port",
	},
	{
		"healthcheck healthchecks heartbeat heartbeat_url dead_mans_switch monitor.url monitor.ping " +
			"monitor.healthcheck monitor.webhook ping uptime",
		"monitor.ping_url",
	},
	{
		"server.address server.bind server.listen server.hostname server.ip listen bind bind_address " +
			"listen_address",
		"server.host",
	},
	{
		"server.allowed_hosts server.allow_hosts server.allow_host server.allowed_domains server.domains server.domain " +
			"server.trusted_hosts server.server_name server.allowlist server.whitelist",
		"symphony serve --allow-host NAME permits the name by which browsers call it",
	},
	{"ports http_port web_port dashboard_port expose", "server.port"},
	{
		"server.token server.password server.auth server.user server.users server.secret",
		"symphony serve prints its token when it starts; --token-file gives it one that stays",
	},
	{
		"server.path server.base_path server.base_url server.prefix server.root_path server.url",
		"symphony serve has its pages at the root of its address: give it a host name or a port of its own",
	},
	{
		"server.tls server.https server.cert server.key server.ssl tls ssl https cert domain",
		"symphony serve speaks plain HTTP: put a proxy with TLS before it, as docs/web.md shows",
	},
	{
		"server.enabled server.enable server.on server.active dashboard ui web gui",
		"symphony serve is the web page; server.port and server.host say where it listens",
	},
	{
		"image images docker dockerfile container containers devcontainer volumes podman compose " +
			"kubernetes k8s namespace pod services vm",
		noBoxes,
	},
	{
		"worker.user worker.port worker.key worker.identity_file worker.ssh_key worker.ssh_user worker.ssh_port",
		"worker.ssh_hosts has user@host:port, or a name in ~/.ssh/config, which also has the key",
	},
	{
		"worker.max_per_host worker.per_host worker.slots worker.slots_per_host worker.agents_per_host " +
			"worker.concurrency worker.parallel worker.count worker.max_agents worker.max_concurrent " +
			"worker.max_concurrent_agents worker.max_workers worker.limit",
		"worker.max_concurrent_agents_per_host",
	},
	{
		"worker.engine.command worker.engine.cmd worker.engine.run",
		"worker.engine.start, connect, status and stop are four commands: docs/hosts.md shows them",
	},
	{
		"worker.engine.partition worker.engine.queue worker.engine.account worker.engine.time worker.engine.memory " +
			"worker.engine.cpus worker.engine.options",
		"worker.engine.args",
	},
	{"machine machines ssh nodes node runner runners runs_on hosts servers ssh_host", "worker.ssh_hosts"},
	{"claims claim leader_election lock team_mode multi_machine distributed ha", "repository.claims"},
	{
		"proxy http_proxy https_proxy no_proxy",
		"symphony obeys the variables HTTPS_PROXY and NO_PROXY of its environment",
	},
	{"ca_cert ca_bundle ca cafile cacert certificates ssl_ca", "tracker.ca_file"},
	{
		"version apiversion name description project_name id metadata spec schema $schema " +
			"title_of_workflow",
		"nothing reads it: the folder of WORKFLOW.md names the project",
	},
	{
		"extends import imports inherits defaults profiles common includes",
		"a workflow is one file: write the keys themselves",
	},
	{"cache caches artifacts", "nothing is to be set: a workspace stays as it is until its issue is finished"},
}

// Setting returns the key of symphony, or the sentence, for what other programs call by a name, such
// as max-agents; empty for a name of no key.
func Setting(name string) string {
	word := plainKey(name)
	core := coreOf(word)
	for _, known := range []string{word, core + "s", core} {
		if meant := otherKeysFor(known); len(meant) > 0 {
			return meant[0]
		}
	}
	for _, k := range Keys() {
		section, last, _ := cutLast(k.Name)
		if !slices.Contains([]string{"agent", "codex", "polling", "repository", "verify", "workspace"}, section) {
			continue // tracker.provider.states, merge.label and worker.engine.stop mean something else
		}
		isSection := strings.HasPrefix(k.Name, word+".")
		if last == word && slices.Contains(ofOthers, k.Name) && slices.Contains(ofDefault, DefaultAgent+"."+last) {
			return DefaultAgent + "." + last + " in WORKFLOW.md sets it, for other agents " + k.Name
		}
		if last == word || isSection || core != "" && coreOf(last) == core {
			return k.Name
		}
	}
	return ""
}

// fillers are words of keys that say little by themselves: max_concurrency, concurrency_limit and
// concurrency mean the same, and so do timeout, timeoutSeconds and timeout-ms.
var fillers = []string{
	"on", "by", "max", "maximum", "min", "minimum", "num", "number", "count", "of", "per", "default",
	"limit", "total", "global", "the", "agent", "agents", "run", "runs", "job", "jobs", "issue", "issues",
	"session", "enable", "enabled", "use", "auto", "symphony", "ms", "millis", "milliseconds", "s", "sec",
	"secs", "seconds", "minutes", "mins", "hours", "h", "m", "bytes", "mb", "gb", "usd", "day", "daily",
}

// plainKey is a key as it would be written here: maxTurns and max-turns are max_turns.
func plainKey(key string) string {
	key = camelHump().ReplaceAllString(key, "${1}_$2")
	return strings.ToLower(strings.ReplaceAll(key, "-", "_"))
}

// coreOf is a plain word without its fillers, and without an s at its end; empty if it has no
// others.
func coreOf(word string) string {
	words := strings.FieldsFunc(word, func(r rune) bool { return r == '_' || r == ' ' })
	words = slices.DeleteFunc(words, func(part string) bool { return slices.Contains(fillers, part) })
	core := strings.Join(words, "_")
	if len(core) > 3 {
		core = strings.TrimSuffix(core, "s")
	}
	return core
}
