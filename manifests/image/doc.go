// Package image holds manifests/Dockerfile to what buildkit's own linter asks
// for. It is a module of its own, so that buildkit stays out of plumbline's
// dependencies; it cannot build the image, which takes an engine.
package image
