// Command image makes plumbline's container image without a container engine: an index of
// images for nodes of several architectures, each with the program, the authorities of
// TLS, a user, and nothing else: no shell, no package, no base image that could move. The
// same binaries make the same image, byte for byte. It is a module of its own, so that what it needs is
// not linked to plumbline.
//
//	image -version v1.2.3 -created SECONDS -binary linux/amd64=FILE [-binary …] [-out FILE.tar] [-push REFERENCE]
//
// -out writes an archive of an OCI layout, which `docker load`, `ctr images import` and skopeo
// read; -push sends the image to a registry, with the credentials of docker login, and
// prints its digest.
package main
