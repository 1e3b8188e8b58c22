// Package nodesync writes the manifest of a NodeSync over a repository of a
// sandbox's Git host, with the Secret that lets the daemon read the repository
// and report to the host.
package nodesync
