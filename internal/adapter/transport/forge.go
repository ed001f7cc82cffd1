package transport

import (
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
)

// ForgeOptions describe a repository on a forge and how to reach it.
type ForgeOptions struct {
	Options           // Key is the token; Endpoint is the address of the API, such as https://HOST/api/v1
	Repository string // OWNER/NAME, on GitLab also GROUP/SUBGROUP/NAME
	By         string // the source of the token: gh, or $ and the name of a variable
	Renew      string // the remedy if the forge does not accept the token
	// Memory keeps the end of a limit between processes, because a limit may last an hour. Nil: only
	// this process remembers it.
	Memory reconcile.TrackerMemory
	// Renamed, unless it is nil, is called with the new name of a repository that was renamed.
	Renamed func(name string)
}

// Moved returns the error of a repository that was renamed. name is its present name, empty if that
// is not known.
func (o ForgeOptions) Moved(service, name string) error {
	if name == "" {
		name = "another name"
	} else if o.Renamed != nil {
		o.Renamed(name)
	}
	return reconcile.NewError(
		reconcile.CodeForgeMoved,
		fmt.Sprintf("%s has renamed or moved %s to %s", service, o.Repository, name),
		"set repository.url to the present address of the repository, if you mean that repository",
	)
}

// limitSuffix follows the prefix of a service in the name under which a memory keeps the end of
// a limit.
const limitSuffix = "_limit"

// LimitKey is the key under which a memory keeps the end of a service's limit, in milliseconds
// since 1970. prefix is the service's: tracker or forge.
func LimitKey(prefix string) string { return prefix + limitSuffix }
