// Package grant decides whether the credentials in a Secret may be sent to an
// address for a NodeSync. A user who may create a NodeSync can name any Secret of its
// namespace and any URL; so the Secret says, in annotations, for which hosts it is
// and, where it wants to, for which NodeSyncs.
//
// A Secret's annotations, a NodeSync's name and an address go in; nil or a
// *RefusedError comes out. It reads nothing, and never sees the credentials.
package grant
