// Package repository is a repository on a sandbox's Git host together with a
// clone of it, as a platform engineer has it: files are edited, committed and
// pushed with the git program, and the statuses of a commit are read through
// the host's API.
package repository
