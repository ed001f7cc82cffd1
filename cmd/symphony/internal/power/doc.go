// Package power takes the power away from a command, for tests of what is on the disk when it fails. It runs on linux,
// as a program of its own:
//
//	power -cut N [-lazy] DIR COMMAND [ARG...]
//
// Before the Nth sync of a file or folder below DIR all processes that came of the command are killed at once, and DIR
// is put back to what a disk would hold of it then: of a file what its last sync saw, nothing of one that never was
// synced. Folders are as they were at the cut, or, with -lazy, as at their last sync; real file systems lie somewhere
// between. Where everything ends before the Nth sync, the power goes then. Syncs by programs other than symphony don't
// count. It prints where it cut, and leaves the folder as everybody saw it at the cut in DIR.seen.
package power
