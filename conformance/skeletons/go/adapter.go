// A first adapter in Go, with nothing but the standard library.
//
//	go build -o adapter conformance/skeletons/go/adapter.go
//	memwal conformance vectors check --adapter ./adapter
//
// It has the start of tier 0 for revisions A and B: names, hashes, and the version hint both ways. All the rest is
// UNSUPPORTED. Replace the functions by calls of your implementation, and name each new message in hello.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"
)

type object = map[string]any

// refused is an error reply. Any other failure is a panic, which ends the process: the suite calls that a crash.
type refused struct{ kind, message string }

func (r refused) Error() string { return r.message }

type cell struct {
	T string
	V any
}

type params struct {
	Revision, Kind, Number string
	Values                 []cell
	Data                   []byte // encoding/json reads and writes these as base64; a nil slice as null, which no result may have
	Hint                   struct{ Version string }
}

var revision string
var walSuffix = map[string]string{"A": "lance", "B": "arrow"}

var messages = map[string]func(params) (object, error){
	"hello": hello, "configure": configure, "shutdown": shutdown,
	"eval.name": evalName, "eval.hash": evalHash, "eval.decode": evalDecode, "eval.encode": evalEncode,
}

func hello(params) (object, error) {
	return object{
		"protocol": "1", "implementation": "skeleton (Go)", "version": "1",
		"revisions": []string{"A", "B"}, "roles": []string{},
		"capabilities": []string{"eval.name", "eval.hash", "eval.decode", "eval.encode"},
		"without": []string{
			"eval.decode manifest", "eval.decode wal", "eval.decode index_details",
			"eval.encode manifest", "eval.encode wal", "eval.encode index_details",
		},
	}, nil
}

func configure(p params) (object, error) { revision = p.Revision; return object{}, nil }

func shutdown(params) (object, error) { return object{}, nil }

func evalName(p params) (object, error) {
	number, err := strconv.ParseUint(p.Number, 10, 64) // 64-bit numbers are decimal strings
	if err != nil {
		return nil, refused{"invalid_argument", err.Error()}
	}
	switch p.Kind {
	case "table_manifest":
		return object{"name": fmt.Sprintf("%020d.manifest", math.MaxUint64-number)}, nil
	case "manifest":
		return object{"name": fmt.Sprintf("%064b.binpb", bits.Reverse64(number))}, nil
	default:
		return object{"name": fmt.Sprintf("%064b.%s", bits.Reverse64(number), walSuffix[revision])}, nil
	}
}

// evalHash: the hash of each column is the seed of the next, and NULL is left out (AMB-60, several columns).
func evalHash(p params) (object, error) {
	var hash any
	seed := uint32(0)
	for _, value := range p.Values {
		if value.V == nil {
			continue
		}
		data, err := bytesOf(value)
		if err != nil {
			return nil, err
		}
		seed = murmur3(data, seed)
		hash = int32(seed)
	}
	return object{"hash": hash}, nil
}

// bytesOf gives the bytes that are hashed: one form per family of types (AMB-59, bytes that go into Murmur3).
func bytesOf(value cell) ([]byte, error) {
	var number uint64
	var signed int64
	var err error
	text, _ := value.V.(string)
	switch {
	case value.T == "utf8":
		return []byte(text), nil
	case value.T == "binary":
		return base64.StdEncoding.DecodeString(text)
	case strings.HasPrefix(value.T, "float32["):
		return nil, refused{"invalid_argument", "a vector has no hash"}
	case value.T == "float32" || value.T == "float64":
		width := 64
		if value.T == "float32" {
			width = 32 // the binary32 that the text rounds to
		}
		var float float64
		float, err = strconv.ParseFloat(text, width)
		number = math.Float64bits(float + 0) // one zero: -0 + 0 is 0
		if math.IsNaN(float) {
			number = 0x7ff8000000000000 // one NaN: Go's own has other bits
		}
	case value.T == "uint64":
		number, err = strconv.ParseUint(text, 10, 64)
	case value.V == true:
		number = 1
	case value.T != "bool": // integers, date32, timestamp_us
		signed, err = strconv.ParseInt(text, 10, 64)
		number = uint64(signed)
	}
	return binary.LittleEndian.AppendUint64(nil, number), err
}

func murmur3(data []byte, hash uint32) uint32 {
	mixed := func(word uint32) uint32 { return bits.RotateLeft32(word*0xcc9e2d51, 15) * 0x1b873593 }
	length := uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		hash = bits.RotateLeft32(hash^mixed(binary.LittleEndian.Uint32(data)), 13)*5 + 0xe6546b64
	}
	hash ^= mixed(binary.LittleEndian.Uint32(append(bytes.Clone(data), 0, 0, 0, 0)))
	hash ^= length
	hash = (hash ^ hash>>16) * 0x85ebca6b
	hash = (hash ^ hash>>13) * 0xc2b2ae35
	return hash ^ hash>>16
}

// evalDecode: damaged bytes are the error corrupt.
func evalDecode(p params) (object, error) {
	var hint map[string]json.RawMessage // a json.Number would also take text
	if err := json.Unmarshal(p.Data, &hint); err != nil {
		return nil, refused{"corrupt", err.Error()}
	}
	version, err := strconv.ParseUint(string(hint["version"]), 10, 64)
	if err != nil || version == 0 {
		return nil, refused{"corrupt", fmt.Sprintf("the hint has the version %q", hint["version"])}
	}
	return object{"hint": object{"version": strconv.FormatUint(version, 10)}}, nil
}

func evalEncode(p params) (object, error) {
	return object{"data": []byte(`{"version": ` + p.Hint.Version + `}`)}, nil
}

func main() {
	requests, replies := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var request struct {
			Id, Message string
			Params      params
		}
		if err := requests.Decode(&request); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		result, err := messages[request.Message](request.Params)
		if no, is := err.(refused); is {
			replies.Encode(object{"id": request.Id, "error": object{"kind": no.kind, "message": no.message}})
		} else if err != nil {
			panic(err)
		} else {
			replies.Encode(object{"id": request.Id, "result": result})
		}
		if request.Message == "shutdown" {
			return
		}
	}
}
