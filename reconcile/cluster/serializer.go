package cluster

import (
	"bytes"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Read reads one object of a kind. It keeps nothing of the bytes.
type Read func(raw []byte) (runtime.Object, error)

// Serializer reads the objects of a kind by read, and all else as slow does.
func Serializer(slow runtime.NegotiatedSerializer, kind schema.GroupVersionKind, read Read) runtime.NegotiatedSerializer {
	w := &way{kind: kind, head: fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, kind.GroupVersion().String(), kind.Kind), read: read}
	types := append([]runtime.SerializerInfo(nil), slow.SupportedMediaTypes()...)
	for i := range types {
		if types[i].MediaType != runtime.ContentTypeJSON || types[i].StreamSerializer == nil {
			continue
		}
		stream := *types[i].StreamSerializer
		stream.Framer, stream.Serializer = lines{stream.Framer, w}, events{stream.Serializer, w}
		types[i].Serializer, types[i].StreamSerializer = objects{types[i].Serializer, w}, &stream
	}
	return negotiated{slow, types}
}

// negotiated is a serializer with other media types.
type negotiated struct {
	runtime.NegotiatedSerializer

	types []runtime.SerializerInfo
}

// SupportedMediaTypes are those of client-go, where JSON is read in one go.
func (n negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return n.types }

// way is how the objects of a kind are read.
type way struct {
	kind schema.GroupVersionKind
	// head is how the JSON of one begins: the API server writes keys in order.
	head []byte
	read Read
	// left reports that one could not be read, so that it is client-go's turn.
	left atomic.Bool
}

// objects reads single objects.
type objects struct {
	runtime.Serializer

	way *way
}

// Decode reads an object that nothing is given for to read it into.
func (o objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil && !o.way.left.Load() && bytes.HasPrefix(data, o.way.head) {
		if object, err := o.way.read(data); err == nil {
			return object, &o.way.kind, nil
		}
		o.way.left.Store(true)
	}
	return o.Serializer.Decode(data, defaults, into)
}

// events reads what an event is, and where its object is in it.
type events struct {
	runtime.Serializer

	way *way
}

// Decode reads an event. The object in it is a part of data.
func (e events) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok && !e.way.left.Load() {
		if kind, object, found := e.way.cut(data); found {
			event.Type, event.Object.Raw = kind, object
			return event, nil, nil
		}
	}
	object, kind, err := e.Serializer.Decode(data, defaults, into)
	if err != nil {
		e.way.left.Store(true) // its lines may be no events
	}
	return object, kind, err
}

// cut takes an event apart: {"type":"ADDED","object":{…}}. Only an object of the kind is
// looked for.
func (w *way) cut(data []byte) (kind string, object []byte, found bool) {
	rest, begins := bytes.CutPrefix(data, []byte(`{"type":"`))
	name, _, named := bytes.Cut(rest[:min(len(rest), maxType)], []byte(`","object":`))
	if !begins || !named {
		return "", nil, false
	}
	rest = data[len(`{"type":"`)+len(name)+len(`","object":`):]
	rest = bytes.TrimRight(rest, "\n")
	object, ends := bytes.CutSuffix(rest, []byte("}"))
	return string(name), object, ends && bytes.HasPrefix(object, w.head)
}

// maxType is how far from its beginning the object of an event begins at most.
const maxType = 32
