// Package githost runs a real Git host for a sandbox: Gitea, as a process of its own, with smart HTTP and SSH on loopback ports.
//
// In goes the program and an empty folder; out comes a Host with an administrator, on which users, tokens, repositories, keys,
// webhooks and pull requests are made through Gitea's own API, and commit statuses are read back as a person would see them.
// Key files and known_hosts for clients lie in the host's folder, and ClientEnv is the environment of a system git that uses them.
//
// The package never talks to anything but its own process, keeps no repository between runs, and leaves the machine's own
// git configuration and SSH agent out of it.
package githost
