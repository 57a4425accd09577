// A Worker for pages that are opened as files, where browsers allow none: the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write(`<!doctype html><script>
        window.postMessage = (data) => parent.dispatchEvent(new MessageEvent("memwal-worker", { data }));
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = done;
          document.head.append(script);
        })), Promise.resolve());
      <\/script><script src="${url}"><\/script>`);
      inside.document.close();
      this.ready = new Promise((done) => (inside.onload = done)); // document.open() takes listeners away
      addEventListener("memwal-worker", ({ data }) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
