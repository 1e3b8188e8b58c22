// Package kustomize builds a folder with a kustomization in it.
//
// In go a read-only file system and the name of a folder; out come objects, each
// with the file that it was first written in. Bases may lie anywhere in the same
// file system, and nothing anywhere else: before the build all kustomizations
// are walked, and any field that would load something over the network, run a
// program or leave the file system is refused by file and field.
//
// It never opens a socket, starts a process or writes a file.
package kustomize
