package export

// The names of the GenAI conventions are drafts and will change. These are of the version in schema.
const (
	schema = "https://opentelemetry.io/schemas/1.41.0"

	// Operations, which begin the names of spans.
	invokeWorkflow = "invoke_workflow"
	invokeAgent    = "invoke_agent"
	executeTool    = "execute_tool"

	operationName   = "gen_ai.operation.name"
	workflowName    = "gen_ai.workflow.name"
	providerName    = "gen_ai.provider.name"
	agentName       = "gen_ai.agent.name"
	conversationID  = "gen_ai.conversation.id"
	requestModel    = "gen_ai.request.model"
	inputTokens     = "gen_ai.usage.input_tokens"
	cachedTokens    = "gen_ai.usage.cache_read.input_tokens"
	outputTokens    = "gen_ai.usage.output_tokens"
	reasoningTokens = "gen_ai.usage.reasoning.output_tokens"
	toolName        = "gen_ai.tool.name"
	toolCallID      = "gen_ai.tool.call.id"
	exitCode        = "process.exit.code"
	errorType       = "error.type"
	inputMessages   = "gen_ai.input.messages" // these four with --content
	outputMessages  = "gen_ai.output.messages"
	toolArguments   = "gen_ai.tool.call.arguments"
	toolResult      = "gen_ai.tool.call.result"

	// Symphony's own. The totals of a run have other names than those of turns, so that no sum over spans counts twice.
	issueIdentifier = "symphony.issue.identifier"
	runID           = "symphony.run.id"
	runAttempt      = "symphony.run.attempt"
	runOutcome      = "symphony.run.outcome"
	runHost         = "symphony.run.host"
	runInput        = "symphony.run.input_tokens"
	runOutput       = "symphony.run.output_tokens"
	runCost         = "symphony.run.cost"
	turnNumber      = "symphony.turn.number"
	turnCost        = "symphony.turn.cost"
	currency        = "symphony.cost.currency"
)
