// Command image builds plumbline's container image without a container engine: an index of images for nodes of several
// architectures, each with only the program, the TLS CA certificates and a user: no shell, no package, no base image
// that could change. The same binaries result in the same image, byte for byte. It is a separate module, so that
// plumbline does not link its dependencies.
//
//	image -version v1.2.3 -created SECONDS -binary linux/amd64=FILE [-binary …] [-out FILE.tar] [-push REFERENCE]
//
// -out writes an OCI layout as an archive, which `docker load`, `ctr images import` and skopeo accept; -push sends the
// image to a registry, with the credentials of docker login, and prints its digest.
package main
