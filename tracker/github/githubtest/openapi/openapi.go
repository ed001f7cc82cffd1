// Package openapi checks requests to GitHub, and its answers, by its published description. It
// is not a part of githubtest, because the tests of cmd/symphony start their own program
// thousands of times, and the validator would add a third to the time of each start. They use
// the program validate instead.
package openapi

import "github.com/symphony-cron/symphony/internal/adapter/openapitest"

// Variable names the description, api.github.com.json of npm's @octokit/openapi. Without it
// nothing is checked.
const Variable = "SYMPHONY_GITHUB_OPENAPI"

var github = openapitest.Description{Variable: Variable}

// Check returns the fault of a request, or of the reply to it. params are the values of the
// parts of path in braces.
var Check = github.Check
