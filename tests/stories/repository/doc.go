// Package repository is a repository on a sandbox's Git host together with a clone of it, as a platform engineer uses
// it: it edits, commits and pushes files with the git program, and reads the statuses of a commit through the host's
// API.
package repository
