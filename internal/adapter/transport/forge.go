package transport

import "github.com/symphony-cron/symphony/reconcile"

// ForgeOptions describe a repository on a forge and how to reach it.
type ForgeOptions struct {
	Options           // Key is the token; Endpoint is the address of the API, such as https://HOST/api/v1
	Repository string // OWNER/NAME, on GitLab also GROUP/SUBGROUP/NAME
	By         string // the source of the token: gh, or $ and the name of a variable
	Renew      string // the remedy if the forge does not accept the token
	// Memory keeps the end of a limit between processes, because a limit may last an hour. Nil: only
	// this process remembers it.
	Memory reconcile.TrackerMemory
}

// limitSuffix follows the prefix of a service in the name under which a memory keeps the end of
// a limit.
const limitSuffix = "_limit"

// LimitKey is the key under which a memory keeps the end of a service's limit, in milliseconds
// since 1970. prefix is the service's: tracker or forge.
func LimitKey(prefix string) string { return prefix + limitSuffix }
