// Package kustomize builds a folder with a kustomization in it.
//
// Its input is a read-only file system and the name of a folder; its outputs are objects, each with the file in which
// it was first written. Bases may be anywhere in the same file system, and nowhere else: before the build it walks all
// kustomizations, and refuses, by file and field, any field that would load something over the network, run a program
// or leave the file system.
//
// It never opens a socket, starts a process or writes a file.
package kustomize
