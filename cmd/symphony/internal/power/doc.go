// Package power simulates a power failure, for tests of what is on the disk afterwards. On linux it is a program:
//
//	power -cut N [-lazy] DIR COMMAND [ARG...]
//
// Before the Nth fsync of a file or folder below DIR it kills all processes of the command and restores DIR to what a disk
// would hold: each file as at its last sync, files that were never synced not at all. Folders are as at the cut or, with
// -lazy, as at their last sync; real file systems lie between the two. Where everything ends before the Nth sync, the power
// fails then. Only syncs by symphony count. DIR.seen keeps the folder as programs saw it at the cut.
package power
