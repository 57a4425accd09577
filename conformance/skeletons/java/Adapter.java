import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * A first adapter in Java 17, with nothing but the JDK.
 *
 * <pre>memwal conformance vectors check --adapter "java conformance/skeletons/java/Adapter.java"</pre>
 *
 * It has the start of tier 0 for revisions A and B: names, hashes, and the version hint both ways. All the rest is
 * UNSUPPORTED. Replace the methods by calls of your implementation, and name each new message in {@code hello}.
 */
public final class Adapter {
    /** An error reply. Any other exception ends the process: the suite calls that a crash. */
    static final class Refused extends RuntimeException {
        final String kind;

        Refused(String kind, String message) {
            super(message);
            this.kind = kind;
        }
    }

    static String revision = "";

    static final Map<String, Function<Map<String, Object>, Map<String, Object>>> MESSAGES = Map.of(
            "hello", Adapter::hello,
            "configure", Adapter::configure,
            "shutdown", params -> Map.of(),
            "eval.name", Adapter::evalName,
            "eval.hash", Adapter::evalHash,
            "eval.decode", Adapter::evalDecode,
            "eval.encode", Adapter::evalEncode);

    static Map<String, Object> hello(Map<String, Object> params) {
        return Map.of(
                "protocol", "1",
                "implementation", "skeleton (Java)",
                "version", "1",
                "revisions", List.of("A", "B"),
                "roles", List.of(),
                "capabilities", List.of("eval.name", "eval.hash", "eval.decode", "eval.encode"),
                "without", List.of(
                        "eval.decode manifest", "eval.decode wal", "eval.decode index_details",
                        "eval.encode manifest", "eval.encode wal", "eval.encode index_details"));
    }

    static Map<String, Object> configure(Map<String, Object> params) {
        revision = (String) params.get("revision");
        return Map.of();
    }

    static Map<String, Object> evalName(Map<String, Object> params) {
        long number = unsigned((String) params.get("number"), "invalid_argument"); // 64-bit numbers are decimal strings
        if (params.get("kind").equals("table_manifest")) {
            String left = Long.toUnsignedString(-1 - number);
            return Map.of("name", "0".repeat(20 - left.length()) + left + ".manifest");
        }
        String suffix = params.get("kind").equals("manifest") ? ".binpb" : revision.equals("A") ? ".lance" : ".arrow";
        String bits = Long.toBinaryString(Long.reverse(number));
        return Map.of("name", "0".repeat(64 - bits.length()) + bits + suffix);
    }

    static long unsigned(String text, String kind) {
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException e) {
            throw new Refused(kind, "no unsigned 64-bit number: " + text);
        }
    }

    /** The hash of each column is the seed of the next, and NULL is left out (AMB-60, several columns). */
    static Map<String, Object> evalHash(Map<String, Object> params) {
        Integer hash = null;
        for (Object value : (List<?>) params.get("values")) {
            Map<?, ?> cell = (Map<?, ?>) value;
            if (cell.get("v") != null) {
                hash = murmur3(bytesOf((String) cell.get("t"), cell.get("v")), hash == null ? 0 : hash);
            }
        }
        Map<String, Object> result = new LinkedHashMap<>(); // Map.of takes no null
        result.put("hash", hash);
        return result;
    }

    /** The bytes that are hashed: one form per family of types (AMB-59, bytes that go into Murmur3). */
    static byte[] bytesOf(String type, Object value) {
        if (type.startsWith("float32[")) {
            throw new Refused("invalid_argument", "a vector has no hash");
        }
        return switch (type) {
            case "utf8" -> ((String) value).getBytes(StandardCharsets.UTF_8);
            case "binary" -> Base64.getDecoder().decode((String) value);
            case "bool" -> eight(Boolean.TRUE.equals(value) ? 1 : 0);
            // one zero, since -0 + 0 is 0; one NaN, by doubleToLongBits
            case "float32" -> eight(Double.doubleToLongBits(Float.parseFloat((String) value) + 0.0));
            case "float64" -> eight(Double.doubleToLongBits(Double.parseDouble((String) value) + 0.0));
            case "uint64" -> eight(unsigned((String) value, "invalid_argument"));
            default -> eight(Long.parseLong((String) value)); // integers, date32, timestamp_us
        };
    }

    static byte[] eight(long number) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array();
    }

    static int murmur3(byte[] data, int hash) {
        for (int at = 0; at < data.length; at += 4) {
            int word = 0;
            for (int i = Math.min(at + 4, data.length) - 1; i >= at; i--) {
                word = word << 8 | data[i] & 0xff; // bytes have a sign in Java
            }
            hash ^= Integer.rotateLeft(word * 0xcc9e2d51, 15) * 0x1b873593;
            if (at + 4 <= data.length) {
                hash = Integer.rotateLeft(hash, 13) * 5 + 0xe6546b64;
            }
        }
        hash ^= data.length;
        hash = (hash ^ hash >>> 16) * 0x85ebca6b;
        hash = (hash ^ hash >>> 13) * 0xc2b2ae35;
        return hash ^ hash >>> 16;
    }

    /** Damaged bytes are the error corrupt. */
    static Map<String, Object> evalDecode(Map<String, Object> params) {
        byte[] data = Base64.getDecoder().decode((String) params.get("data"));
        try {
            Object hint = Json.parse(new String(data, StandardCharsets.UTF_8));
            long version = unsigned(((BigDecimal) ((Map<?, ?>) hint).get("version")).toString(), "corrupt");
            if (version != 0) {
                return Map.of("hint", Map.of("version", Long.toUnsignedString(version)));
            }
        } catch (IllegalArgumentException | ClassCastException | NullPointerException e) {
            throw new Refused("corrupt", "the hint has no version: " + e);
        }
        throw new Refused("corrupt", "the hint has the version 0");
    }

    static Map<String, Object> evalEncode(Map<String, Object> params) {
        String hint = "{\"version\": " + ((Map<?, ?>) params.get("hint")).get("version") + "}";
        return Map.of("data", Base64.getEncoder().encodeToString(hint.getBytes(StandardCharsets.UTF_8)));
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws IOException {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            var request = (Map<String, Object>) Json.parse(line);
            var reply = new LinkedHashMap<String, Object>();
            reply.put("id", request.get("id"));
            try {
                var answer = MESSAGES.get((String) request.get("message"));
                reply.put("result", answer.apply((Map<String, Object>) request.get("params")));
            } catch (Refused refused) {
                reply.put("error", Map.of("kind", refused.kind, "message", refused.getMessage()));
            }
            replies.print(Json.written(reply) + "\n");
            replies.flush();
            if (request.get("message").equals("shutdown")) {
                return;
            }
        }
    }

    /** As much JSON as an adapter needs: maps, lists, strings, BigDecimal, Boolean, null. Use your own library. */
    static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        static Object parse(String text) {
            Json json = new Json(text);
            Object value = json.value();
            if (json.next() != 0) {
                throw new IllegalArgumentException("no JSON at character " + json.at);
            }
            return value;
        }

        /** The next character that is no white space, which stays; 0 at the end. */
        private char next() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean takes(String word) {
            boolean there = next() != 0 && text.startsWith(word, at);
            at += there ? word.length() : 0;
            return there;
        }

        private void needs(String word) {
            if (!takes(word)) {
                throw new IllegalArgumentException("no " + word + " at character " + at);
            }
        }

        private Object value() {
            if (takes("null")) {
                return null;
            } else if (takes("true")) {
                return true;
            } else if (takes("false")) {
                return false;
            } else if (next() == '"') {
                return string();
            } else if (takes("[")) {
                var items = new ArrayList<Object>();
                while (!takes("]")) {
                    if (!items.isEmpty()) {
                        needs(",");
                    }
                    items.add(value());
                }
                return items;
            } else if (takes("{")) {
                var members = new LinkedHashMap<String, Object>();
                while (!takes("}")) {
                    if (!members.isEmpty()) {
                        needs(",");
                    }
                    next();
                    String name = string();
                    needs(":");
                    members.put(name, value());
                }
                return members;
            }
            int start = at;
            while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return new BigDecimal(text.substring(start, at));
        }

        private String string() {
            var out = new StringBuilder();
            needs("\"");
            for (; at < text.length(); at++) {
                char c = text.charAt(at);
                if (c == '"') {
                    at++;
                    return out.toString();
                } else if (c != '\\') {
                    out.append(c);
                } else if (text.charAt(++at) == 'u') {
                    out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    int known = "ntrbf".indexOf(text.charAt(at));
                    out.append(known < 0 ? text.charAt(at) : "\n\t\r\b\f".charAt(known));
                }
            }
            throw new IllegalArgumentException("a string without an end");
        }

        static String written(Object value) {
            var out = new StringBuilder();
            if (value instanceof String string) {
                out.append('"');
                for (char c : string.toCharArray()) {
                    out.append(c == '"' || c == '\\' ? "\\" + c : c < ' ' ? String.format("\\u%04x", (int) c) : c);
                }
                return out.append('"').toString();
            } else if (value instanceof List<?> items) {
                items.forEach(item -> out.append(out.isEmpty() ? "" : ", ").append(written(item)));
                return "[" + out + "]";
            } else if (value instanceof Map<?, ?> members) {
                members.forEach((name, member) -> out.append(out.isEmpty() ? "" : ", ")
                        .append(written(name)).append(": ").append(written(member)));
                return "{" + out + "}";
            }
            return String.valueOf(value);
        }
    }
}
