// Package cleanup removes what symphony has made and no longer needs: prune for one project, and the removal of a whole
// project. Both look first, ask, take the project lock, look again, and then remove.
package cleanup
