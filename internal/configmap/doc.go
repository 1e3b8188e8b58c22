// Package configmap has what the ConfigMaps in which plumbline keeps records have in common: their owner, and the
// messages if one cannot be read or written.
package configmap
