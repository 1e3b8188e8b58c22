// Package githost runs a real Git host for a sandbox: Gitea, as a separate process, with smart HTTP and SSH on loopback
// ports.
//
// It takes the program and an empty folder, and returns a Host with an administrator, on which users, tokens,
// repositories, keys, webhooks and pull requests are created through Gitea's own API, and commit statuses are read as a
// person would see them. The host's folder contains key files and known_hosts for clients, and ClientEnv returns the
// environment for a system git that uses them.
//
// The package never communicates with anything but its own process, keeps no repository between runs, and does not use
// the machine's own git configuration and SSH agent.
package githost
