// Package nodesync writes the manifest of a NodeSync that follows a repository on a sandbox's Git host, with the Secret
// that lets the daemon read the repository and report to the host.
package nodesync
